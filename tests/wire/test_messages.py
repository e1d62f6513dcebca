import json
from typing import Any

import pytest

from durable.core.errors import MalformedMessage, PayloadError
from durable.wire import messages as m
from durable.wire.messages import decode, encode

EXAMPLES: list[tuple[Any, dict[str, Any]]] = [
    (
        m.RemoteTask(run_id="r", seq=0, name="charge", step_id="r:0", group="charge@eu", input={"a": 1}, attempt=1),
        {
            "runId": "r",
            "seq": 0,
            "name": "charge",
            "stepId": "r:0",
            "group": "charge@eu",
            "input": {"a": 1},
            "attempt": 1,
        },
    ),
    (
        m.RemoteTask(
            run_id="r",
            seq=0,
            name="n",
            step_id="r:0",
            group="g",
            input=None,
            attempt=2,
            priority=5,
            transport="bullmq",
            traceparent="00-ab",
            context={"k": "v"},
        ),
        {
            "runId": "r",
            "seq": 0,
            "name": "n",
            "stepId": "r:0",
            "group": "g",
            "input": None,
            "attempt": 2,
            "priority": 5,
            "transport": "bullmq",
            "traceparent": "00-ab",
            "context": {"k": "v"},
        },
    ),
    (
        m.StepResult(run_id="r", seq=1, step_id="r:1", status="completed", output=[1], started_at=1_700_000_000_000),
        {
            "runId": "r",
            "seq": 1,
            "stepId": "r:1",
            "status": "completed",
            "output": [1],
            "startedAt": 1_700_000_000_000,
        },
    ),
    (
        m.StepResult(
            run_id="r",
            seq=1,
            step_id="r:1",
            status="failed",
            error=m.WireError(message="no", code="c", retryable=False, details={"x": 1}),
            events=[m.StepEvent(at=1, level="info", message="hi", sub_id="s", status="ok", phase="end", data=[2])],
        ),
        {
            "runId": "r",
            "seq": 1,
            "stepId": "r:1",
            "status": "failed",
            "error": {"message": "no", "code": "c", "retryable": False, "details": {"x": 1}},
            "events": [
                {"at": 1, "level": "info", "message": "hi", "subId": "s", "status": "ok", "phase": "end", "data": [2]}
            ],
        },
    ),
    (m.Heartbeat(run_id="r", seq=0, group="g"), {"runId": "r", "seq": 0, "group": "g"}),
    (
        m.Heartbeat(run_id="r", seq=0, step_id="r:0", group="g", progress=0.5),
        {"runId": "r", "seq": 0, "stepId": "r:0", "group": "g", "progress": 0.5},
    ),
    (
        m.WorkflowTask(
            task_id="t",
            run_id="r",
            workflow="w",
            workflow_version="1",
            input=None,
            history=[m.HistoryEvent(seq=0, kind="call", name="n", output=1)],
            pending_signals=[m.PendingSignal(seq=1, signal="s", payload=2)],
            group="w",
            attempt=1,
        ),
        {
            "taskId": "t",
            "runId": "r",
            "workflow": "w",
            "workflowVersion": "1",
            "input": None,
            "history": [{"seq": 0, "kind": "call", "name": "n", "output": 1}],
            "pendingSignals": [{"seq": 1, "signal": "s", "payload": 2}],
            "group": "w",
            "attempt": 1,
        },
    ),
    (
        m.WorkflowDecision(
            task_id="t",
            run_id="r",
            status="continue",
            commands=[
                m.Call(seq=0, name="n", group="", input=1, parallel_group="p"),
                m.RecordStep(seq=1, name="n", output=2, started_at=1, finished_at=2),
                m.Sleep(seq=2, ms=1500),
                m.WaitSignal(seq=3, signal="s"),
                m.StartChild(seq=4, workflow="w", input=None),
            ],
        ),
        {
            "taskId": "t",
            "runId": "r",
            "status": "continue",
            "commands": [
                {"kind": "call", "seq": 0, "name": "n", "group": "", "input": 1, "parallelGroup": "p"},
                {"kind": "recordStep", "seq": 1, "name": "n", "output": 2, "startedAt": 1, "finishedAt": 2},
                {"kind": "sleep", "seq": 2, "ms": 1500},
                {"kind": "waitSignal", "seq": 3, "signal": "s"},
                {"kind": "startChild", "seq": 4, "workflow": "w"},
            ],
        },
    ),
    (
        m.WorkflowDecision(task_id="t", run_id="r", status="completed", commands=[], output=1),
        {"taskId": "t", "runId": "r", "status": "completed", "commands": [], "output": 1},
    ),
]


@pytest.mark.parametrize(("message", "wire"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_message_is_written_with_the_keys_of_the_wire(message, wire):
    assert json.loads(encode(message)) == wire


@pytest.mark.parametrize(("message", "wire"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_message_is_read_back(message, wire):
    assert decode(json.dumps(wire), type(message)) == message
    assert decode(encode(message).encode(), type(message)) == message


@pytest.mark.parametrize(("message", "wire"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_unknown_keys_are_ignored(message, wire):
    assert decode(json.dumps({**wire, "fromTheFuture": {"a": 1}}), type(message)) == message


def test_null_stands_for_an_absent_optional_value():
    result = decode(
        '{"runId":"r","seq":0,"stepId":"r:0","status":"completed","error":null,"events":null}', m.StepResult
    )

    assert (result.error, result.events, result.started_at) == (None, None, None)


@pytest.mark.parametrize("value", [2**70, -0.0, "\ud800", "a\x00", 10**4000, {"ä": [1.5]}])
def test_payloads_pass_unchanged(value):
    task = m.RemoteTask(run_id="r", seq=0, name="n", step_id="r:0", group="g", input=value, attempt=1)

    assert repr(decode(encode(task).encode(), m.RemoteTask)) == repr(task)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `runId`"),
        ('{"runId":"r","seq":"0","status":"completed","stepId":"x"}', r"Expected `int`, got `str` - at `\$.seq`"),
        ('{"runId":"r","seq":0,"status":"done","stepId":"x"}', "Invalid enum value 'done'"),
        ('{"runId":"r","seq":0,"status":"completed","stepId":"x","output":NaN}', "NaN is not JSON"),
        ("[" * 200_000, "recursion"),
        (b"\xff\xfe\x00", "."),
    ],
)
def test_a_malformed_message_says_what_is_wrong(text, reason):
    with pytest.raises(MalformedMessage, match=f"^Malformed StepResult: .*{reason}"):
        decode(text, m.StepResult)


def test_an_unknown_command_is_malformed():
    text = '{"taskId":"t","runId":"r","status":"continue","commands":[{"kind":"dance","seq":0}]}'

    with pytest.raises(MalformedMessage, match="dance"):
        decode(text, m.WorkflowDecision)


def test_nan_is_refused_instead_of_becoming_null():
    with pytest.raises(PayloadError):
        encode(m.Heartbeat(run_id="r", seq=0, progress=float("nan")))
