"""The one decision of replay: answered from history, to be done, or not the body's history at all."""

from __future__ import annotations

from typing import Any

import pytest

from durable.core.backoff import Backoff
from durable.core.durations import parse_duration
from durable.core.errors import NonDeterminismError
from durable.core.failure import Failure
from durable.core.retry import RetryPolicy
from durable.core.states import CheckpointKind, CheckpointStatus
from durable.replay.history import CheckpointRecord, History
from durable.replay.operations import AwaitSignal, AwaitSteps, CallSteps, Position, RunLocal, Sleep, StepCall

POLICY = RetryPolicy(
    retries=0,
    backoff=Backoff(kind="fixed", base=parse_duration("1s"), maximum=parse_duration("1s"), jitter=False),
)
NOW_US = 1_000


def record(seq: int, name: str, kind: str = "local", status: str = "completed", **facts: Any) -> CheckpointRecord:
    return CheckpointRecord(
        run_pk=1, seq=seq, name=name, kind=CheckpointKind(kind), status=CheckpointStatus(status), **facts
    )


def position(seq: int, name: str, kind: str = "local") -> Position:
    return Position(seq=seq, name=name, kind=CheckpointKind(kind))


def local(seq: int, name: str) -> RunLocal:
    return RunLocal(at=position(seq, name), input="null", call=lambda: None, encode=str, policy=POLICY)


def call(seq: int, name: str = "s") -> StepCall:
    return StepCall(at=position(seq, name, "remote"), input="null", queue=name, policy=POLICY)


def steps(*calls: StepCall, mode: Any = "wait_all") -> CallSteps:
    return CallSteps(calls=calls, mode=mode)


def sleep(seq: int) -> Sleep:
    return Sleep(at=position(seq, "sleep", "sleep"), delay_us=1)


def test_nothing_recorded_means_that_it_must_be_done():
    assert History("r").answer(local(0, "a"), NOW_US) is None
    assert History("r").last_seq() == -1


def test_what_is_recorded_is_the_answer():
    answer = History("r", [record(0, "a", output="7")]).answer(local(0, "a"), NOW_US)

    assert answer is not None
    assert answer.only.output == "7"
    assert not answer.replayed


def test_an_answer_before_the_end_of_the_history_is_replayed():
    answer = History("r", [record(1, "b"), record(0, "a")]).answer(local(0, "a"), NOW_US)

    assert answer is not None
    assert answer.replayed


def test_a_failure_is_an_answer():
    error = Failure(kind="ValueError", message="no").to_json()
    answer = History("r", [record(0, "a", status="failed", error=error)]).answer(local(0, "a"), NOW_US)

    assert answer is not None
    assert answer.only.failure is not None
    assert answer.only.failure.message == "no"


@pytest.mark.parametrize("status", ["pending", "running"])
def test_what_has_only_begun_is_no_answer(status):
    assert History("r", [record(0, "a", status=status)]).answer(local(0, "a"), NOW_US) is None


@pytest.mark.parametrize(("wake_at_us", "is_over"), [(NOW_US - 1, True), (NOW_US, True), (NOW_US + 1, False)])
def test_a_sleep_is_over_at_its_instant(wake_at_us, is_over):
    history = History("r", [record(0, "sleep", "sleep", "pending", wake_at_us=wake_at_us)])

    assert (history.answer(sleep(0), NOW_US) is not None) is is_over


@pytest.mark.parametrize(
    ("operation", "recorded", "asked"),
    [
        (local(0, "b"), "local 'a'", "local 'b'"),
        (steps(call(0, "a")), "local 'a'", "remote 'a'"),
        (sleep(0), "local 'a'", "sleep 'sleep'"),
        (
            AwaitSignal(at=position(0, "t", "signal"), tokens=("t",), timeout_us=None),
            "local 'a'",
            "signal 't'",
        ),
    ],
)
def test_another_operation_than_recorded_is_named(operation, recorded, asked):
    with pytest.raises(NonDeterminismError) as caught:
        History("run-7", [record(0, "a")]).answer(operation, NOW_US)

    error = caught.value
    assert (error.run_id, error.seq) == ("run-7", 0)
    assert f"{error.recorded_kind} {error.recorded_name!r}" == recorded
    assert f"{error.requested_kind} {error.requested_name!r}" == asked
    assert "run-7" in str(error)
    assert "position 0" in str(error)


def test_a_mismatch_inside_a_gather_is_found_at_its_place():
    history = History("r", [record(0, "a", "remote"), record(1, "x", "remote")])
    with pytest.raises(NonDeterminismError) as caught:
        history.answer(steps(call(0, "a"), call(1, "b")), NOW_US)

    assert caught.value.seq == 1


def test_a_wait_for_all_ends_when_all_are_settled():
    done, failed = record(0, "s", "remote"), record(1, "s", "remote", "failed", error="{}")
    pending = record(2, "s", "remote", "pending")

    assert History("r", [done, failed, pending]).answer(steps(call(0), call(1), call(2)), NOW_US) is None
    answer = History("r", [done, failed]).answer(steps(call(0), call(1)), NOW_US)
    assert answer is not None
    assert [outcome.seq for outcome in answer.outcomes] == [0, 1]


def test_failing_fast_ends_with_the_first_failure():
    failed, pending = record(0, "s", "remote", "failed", error="{}"), record(1, "s", "remote", "pending")
    answer = History("r", [failed, pending]).answer(steps(call(0), call(1), mode="fail_fast"), NOW_US)

    assert answer is not None
    assert [outcome.seq for outcome in answer.outcomes] == [0]


def test_a_gather_of_which_a_part_is_missing_must_be_done():
    assert History("r", [record(0, "s", "remote")]).answer(steps(call(0), call(1)), NOW_US) is None


def test_a_dispatch_without_a_wait_is_answered_once_it_is_recorded():
    pending = record(0, "s", "remote", "pending")

    assert History("r").answer(steps(call(0), mode=None), NOW_US) is None
    answer = History("r", [pending]).answer(steps(call(0), mode=None), NOW_US)
    assert answer is not None
    assert answer.outcomes == ()
    assert History("r", [pending]).answer(AwaitSteps(calls=(call(0),), mode="fail_fast"), NOW_US) is None


def test_later_reads_replace_earlier_ones():
    history = History("r", [record(0, "s", "remote", "pending")])
    history.add([record(0, "s", "remote", output="1")])

    answer = history.answer(steps(call(0)), NOW_US)
    assert answer is not None
    assert answer.only.output == "1"
