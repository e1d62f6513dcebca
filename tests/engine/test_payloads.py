"""Values on their way through a run: input, output of every kind of operation, signal, result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection

from durable import Context, StepFailed, api, current_step, ref, step, workflow
from durable.authoring import codec
from durable.core.errors import PayloadError, RunFailed
from durable.engine.instance import get_engine
from durable.models import BufferedSignal, WorkflowRun
from tests.payloads import CORPUS, Case
from tests.rig.patience import wait_until

pytestmark = pytest.mark.usefixtures("worker")
CALLS: dict[str, int] = {}
NUMBERED: list[Case] = list(CORPUS)
CARRIED = [index for index, case in enumerate(NUMBERED) if case[3] != "refused"]
REFUSED = [index for index, case in enumerate(NUMBERED) if case[3] == "refused"]
BATCH = 16


def batches(indexes: list[int]) -> list[list[int]]:
    return [indexes[start : start + BATCH] for start in range(0, len(indexes), BATCH)]


def labels(batch: list[int]) -> str:
    return f"{NUMBERED[batch[0]][0]} …"[:30].replace(" ", "-")


def produce(index: int) -> Any:
    CALLS[f"{current_step().run_id}:{index}"] = CALLS.get(f"{current_step().run_id}:{index}", 0) + 1
    return NUMBERED[index][1]


def value_of(index: int) -> Any:
    return NUMBERED[index][1]


def produce_as(annotation: Any) -> Any:
    """Return `produce` with the annotation of a case."""

    def produced(index: int) -> Any:
        return produce(index)

    produced.__annotations__["return"] = annotation
    return produced


STEPS: dict[int, Any] = {}
FUNCTIONS: dict[int, Any] = {}
for _index, (_label, _value, _annotation, _expectation) in enumerate(NUMBERED):
    if _expectation != "refused":
        FUNCTIONS[_index] = produce_as(_annotation)
        STEPS[_index] = step(name=f"payloads.produce.{_index}", retries=2, backoff_base="1ms", queue="payloads")(
            FUNCTIONS[_index]
        )


@step(name="payloads.produce", retries=2, backoff_base="1ms", queue="payloads")
def produce_refused(index: int) -> Any:
    return produce(index)


@step(name="payloads.echo", queue="payloads")
def echo(value: Any) -> Any:
    return value


SEEN: dict[str, list[list[tuple[str, Any]]]] = {}


@workflow(name="payloads.through")
def through(ctx: Context, indexes: list[int]) -> str:
    """Bring each value through every kind of operation; note what the body sees, now and on replay."""
    seen: list[tuple[str, Any]] = []
    SEEN.setdefault(ctx.run_id, []).append(seen)
    for index in indexes:
        annotation = NUMBERED[index][2]
        seen.append((f"local {index}", ctx.local_step("local", FUNCTIONS[index], index)))
        seen.append((f"recorded {index}", ctx.side_effect(partial(value_of, index), returns=annotation)))
        token = f"{ctx.run_id}:{index}"
        seen.append((f"signal {index}", ctx.wait_for_signal(token, type=annotation)[1]))
    seen.extend(zip(map(str, indexes), ctx.gather(*(STEPS[index].call(index) for index in indexes)), strict=True))
    ctx.sleep("1ms")
    return "done"


def expected(index: int) -> Any:
    _, value, annotation, expectation = NUMBERED[index]
    if expectation == "same":
        return value
    return codec.decode(codec.encode(value, where="test"), annotation, where="test")


@pytest.mark.parametrize("batch", batches(CARRIED), ids=labels)
def test_values_are_the_same_the_first_time_and_on_replay(batch):
    run_id = f"through-{batch[0]}-{id(batch)}"
    for index in batch:
        api.signal(f"{run_id}:{index}", NUMBERED[index][1])
    run = through.start_as(run_id, batch)

    assert run.result("30s") == "done"
    whole = [seen for seen in SEEN[run_id] if seen]
    assert max(map(len, whole)) == 4 * len(batch)
    for seen in whole:
        for name, value in seen:
            index = int(name.split()[-1])
            right = expected(index)
            assert value == right, f"{name}: {NUMBERED[index][0]}"
            assert type(value) is type(right), f"{name}: {NUMBERED[index][0]}"
            assert repr(value) == repr(right), f"{name}: {NUMBERED[index][0]}"
    assert all(CALLS[f"{run_id}:{index}"] == 2 for index in batch), "a function ran twice"


@workflow(name="payloads.refusing")
def refusing(ctx: Context, indexes: list[int]) -> list[list[Any]]:
    outcomes: list[list[Any]] = []
    for index in indexes:
        local = ref(produce, retries=2, backoff_base="1ms")
        for operation in (
            partial(ctx.local_step, "local", local, index),
            partial(ctx.step, produce_refused, index),
            partial(ctx.side_effect, partial(value_of, index)),
        ):
            try:
                operation()
                outcomes.append([index, "nothing raised"])
            except StepFailed as failed:
                outcomes.append([index, failed.code, failed.attempts])
        try:
            ctx.step(echo, NUMBERED[index][1])
            outcomes.append([index, "nothing raised"])
        except PayloadError as problem:
            outcomes.append([index, problem.code, problem.where])
    return outcomes


def test_outputs_that_cannot_be_carried_fail_their_step_for_good_and_once():
    run = refusing.start(REFUSED)
    outcomes = run.result("40s")

    expectations = []
    for index in REFUSED:
        expectations += [[index, "payload_error", 1]] * 3 + [[index, "payload_error", "step 'payloads.echo'"]]
    assert outcomes == expectations
    assert all(CALLS[f"{run.id}:{index}"] == 2 for index in REFUSED)
    assert [each.seq for each in api.checkpoints(run.id)] == list(range(3 * len(REFUSED)))


@workflow(name="payloads.taking")
def taking(ctx: Context, value: Any) -> None:
    raise AssertionError("the body ran")


@workflow(name="payloads.giving")
def giving(ctx: Context, index: int) -> Any:
    return NUMBERED[index][1]


@pytest.mark.parametrize("index", REFUSED, ids=lambda index: NUMBERED[index][0].replace(" ", "-"))
def test_inputs_and_signals_that_cannot_be_carried_are_refused_before_anything_is_written(index, token):
    value = NUMBERED[index][1]
    runs, signals = WorkflowRun.objects.count(), BufferedSignal.objects.count()
    with pytest.raises(PayloadError, match=r"workflow 'payloads\.taking': at \$"):
        taking.start(value)
    with pytest.raises(PayloadError, match="signal"):
        api.signal(token, value)

    assert (WorkflowRun.objects.count(), BufferedSignal.objects.count()) == (runs, signals)


def test_results_that_cannot_be_carried_fail_the_run():
    runs = [giving.start(index) for index in REFUSED]
    for run in runs:
        with pytest.raises(RunFailed):
            run.result("10s")
        assert run.failure is not None
        assert run.failure.kind == "PayloadError"


@dataclass
class Parcel:
    weight: Decimal
    sent: datetime
    tags: list[str]


@step(name="payloads.pack", queue="payloads")
def pack(weight: Decimal, sent: datetime) -> Parcel:
    assert isinstance(weight, Decimal)
    return Parcel(weight, sent, ["a"])


@workflow(name="payloads.typed")
def typed(ctx: Context, parcel: Parcel, fee: Decimal) -> Parcel:
    SEEN.setdefault(ctx.run_id, []).append([("input", (parcel, fee))])
    packed = ctx.step(pack, parcel.weight + fee, parcel.sent)
    SEEN[ctx.run_id][-1].append(("packed", packed))
    ctx.sleep("1ms")
    return packed


def test_typed_values_come_back_as_themselves():
    sent = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
    run = typed.start(Parcel(Decimal("1.10"), sent, ["b"]), Decimal("0.90"))

    assert run.result("10s") == Parcel(Decimal("2.00"), sent, ["a"])
    for seen in SEEN[run.id]:
        assert seen[0] == ("input", (Parcel(Decimal("1.10"), sent, ["b"]), Decimal("0.90")))
    assert str(SEEN[run.id][-1][1][1].weight) == "2.00"


def test_an_input_of_another_type_is_refused_at_once():
    count = WorkflowRun.objects.count()
    with pytest.raises(PayloadError, match="parameter 'fee'"):
        api.start(typed, {"parcel": {"weight": "1", "sent": "2024-01-01T00:00:00Z", "tags": []}, "fee": "much"})
    with pytest.raises(PayloadError, match=r"parcel.*tags|tags"):
        api.start("payloads.typed", {"parcel": {"weight": "1", "sent": "2024-01-01T00:00:00Z"}, "fee": "1"})

    assert WorkflowRun.objects.count() == count


@workflow(name="payloads.single")
def single(ctx: Context, number: int) -> int:
    return number


@workflow(name="payloads.several")
def several(ctx: Context, number: int, factor: int = 10) -> int:
    return number * factor


@workflow(name="payloads.none")
def none(ctx: Context) -> str:
    return "nothing"


def test_inputs_by_name_take_the_shape_of_the_function():
    assert api.start("payloads.single", 3).result("10s") == 3
    assert api.start("payloads.several", {"number": 3}).result("10s") == 30
    assert api.start("payloads.none").result("10s") == "nothing"


def test_an_old_input_binds_to_a_body_with_one_parameter_more():
    run = single.options(namespace="default").start(4)
    run.result("10s")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE durable_workflow_runs SET workflow = 'payloads.several', status = 'failed', output = NULL"
            " WHERE run_id = %s",
            [run.id],
        )
    run.retry()

    assert run.result("10s") == 40


def test_an_input_that_no_longer_fits_fails_the_run_before_its_body_runs():
    run = single.start(4)
    run.result("10s")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE durable_workflow_runs SET input = '\"four\"', status = 'failed', output = NULL WHERE run_id = %s",
            [run.id],
        )
    run.retry()

    with pytest.raises(RunFailed, match="parameter 'number'"):
        run.result("10s")


RETURNS: dict[str, Any] = {}


@workflow(name="payloads.changing")
def changing(ctx: Context, token: str) -> Any:
    value = ctx.side_effect(lambda: {"weight": "1.5", "items": [1, "two"]}, returns=RETURNS.get(token, Any))
    _, payload = ctx.wait_for_signal(token)
    return [value, payload]


@dataclass
class Changed:
    weight: Decimal
    items: list[int]


@pytest.mark.parametrize("park_limit", [0], ids=["evicted"], indirect=True)  # a parked body does not read again
@pytest.mark.usefixtures("park_limit")
def test_a_stored_value_that_the_code_cannot_read_leaves_the_run_where_it_is(token):
    run = changing.start(token)
    wait_until(lambda: run.status == "suspended", what="the run to wait")
    RETURNS[token] = Changed
    api.signal(token, 1)
    wait_until(lambda: WorkflowRun.objects.get(run_id=run.id).note, what="the note")
    record = WorkflowRun.objects.get(run_id=run.id)

    assert record.status == "suspended"
    assert "$.items[1]" in record.note

    RETURNS[token] = Any
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_workflow_runs SET wake_at_us = 1 WHERE run_id = %s", [run.id])
    get_engine().changed()

    assert run.result("10s") == [{"weight": "1.5", "items": [1, "two"]}, 1]
    assert WorkflowRun.objects.get(run_id=run.id).note == ""


def test_a_payload_over_the_limit_is_refused(token):
    from durable.core.errors import PayloadTooLarge

    with pytest.raises(PayloadTooLarge) as caught:
        api.signal(token, "x" * 5_000_000)
    assert caught.value.limit_bytes == 4 * 1024 * 1024
    with pytest.raises(PayloadTooLarge, match=r"payloads\.taking"):
        taking.start("x" * 5_000_000)


def explode(kind: str) -> None:
    if kind == "unprintable":
        raise Unprintable
    if kind == "huge":
        raise ValueError("x" * 1_000_000)
    if kind == "NUL":
        raise ValueError("a\x00b\ud800")
    raise ExceptionGroup("many", [ValueError(str(number)) for number in range(100)])


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


explode_step = step(name="payloads.explode", retries=0, queue="payloads")(explode)


@workflow(name="payloads.exploding")
def exploding(ctx: Context, kind: str) -> str:
    seen = []
    for operation in (lambda: ctx.step(explode_step, kind), lambda: ctx.local_step("explode", explode_step, kind)):
        try:
            operation()
        except StepFailed as failed:
            seen.append(failed.step)
    assert len(seen) == 2
    explode(kind)
    return ""


@pytest.mark.parametrize("kind", ["unprintable", "huge", "NUL", "group"])
def test_errors_of_every_kind_are_stored(kind):
    run = exploding.start(kind)
    with pytest.raises(RunFailed):
        run.result("10s")

    error = WorkflowRun.objects.get(run_id=run.id).error
    assert error is not None
    assert len(error.encode()) <= 32 * 1024
