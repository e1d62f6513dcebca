"""Plans: what operations ask for, which positions they take, and how their answers are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from durable import step
from durable.authoring.registry import override_registry
from durable.core.errors import InvalidDuration, InvalidName, OperationRefused, PayloadError, StepFailed, WaitTimeout
from durable.core.failure import Failure
from durable.replay.operations import Answer, AwaitSteps, CallSteps, Outcome, RecordValue
from durable.replay.plans import Planner, StoredValueUnreadable
from tests.replay.test_bodies import answer_of, make_body, make_context

with override_registry():

    @step(name="plans.price", queue="till", timeout="5s", priority=3)
    def price(amount: int) -> Decimal:
        return Decimal(amount)


def planner() -> Planner:
    return Planner(run_id="r", limit_bytes=1_000)


def test_positions_are_counted_in_the_order_of_the_operations():
    plan = planner()
    operations = [
        plan.step(price, (1,), {}).operation,
        plan.sleep("1s").operation,
        plan.signal(("a", "b"), Any, "2s").operation,
        plan.record("now", lambda: 1, int).operation,
    ]

    assert isinstance(operations[0], CallSteps)
    assert operations[0].calls[0].at.seq == 0
    assert [operation.at.seq for operation in operations[1:]] == [1, 2, 3]  # type: ignore[union-attr]
    assert plan.next_seq == 4


def test_a_step_carries_the_options_of_its_reference():
    operation = planner().step(price.options(partition="eu"), (1,), {}).operation
    assert isinstance(operation, CallSteps)
    call = operation.calls[0]

    assert (call.queue, call.priority, call.partition, call.input) == ("till", 3, "eu", "1")
    assert call.timeout is not None
    assert call.timeout.total_seconds() == 5


def test_a_value_is_read_as_its_annotation():
    assert planner().step(price, (1,), {}).read(answer_of(0, '"1.10"')) == Decimal("1.10")


def test_a_value_that_does_not_fit_stops_the_body():
    with pytest.raises(StoredValueUnreadable) as caught:
        planner().step(price, (1,), {}).read(answer_of(0, '{"a": 1}'))

    assert not isinstance(caught.value, Exception)
    assert caught.value.problem.path == "$"


def test_a_failure_is_raised_with_its_facts():
    failure = Failure(kind="ValueError", code="c", message="m", attempts=4, seq=0)
    answer = Answer(outcomes=(Outcome(seq=0, failure=failure),))
    with pytest.raises(StepFailed) as caught:
        planner().step(price, (1,), {}).read(answer)

    error = caught.value
    assert (error.step, error.code, error.message, error.attempts, error.seq) == ("plans.price", "c", "m", 4, 0)


def test_a_gather_takes_one_position_for_each_call_and_names_its_group():
    plan = planner()
    plan.sleep(1)
    operation = plan.gather(tuple(price.call(number) for number in range(3)), "wait_all").operation

    assert isinstance(operation, CallSteps)
    assert [(call.at.seq, call.parallel_group) for call in operation.calls] == [(1, 1), (2, 1), (3, 1)]


def failed(seq: int, message: str, at_us: int) -> Outcome:
    return Outcome(seq=seq, failure=Failure(kind="E", message=message), settled_order=at_us)


@pytest.mark.parametrize(("mode", "message"), [("wait_all", "first"), ("fail_fast", "earliest")])
def test_a_gather_raises_the_first_operand_or_the_earliest_failure(mode, message):
    plan = planner().gather((price.call(1), price.call(2)), mode)
    answer = Answer(outcomes=(failed(0, "first", 9), failed(1, "earliest", 3)))
    with pytest.raises(StepFailed, match=message):
        plan.read(answer)


def test_a_settled_gather_gives_outcomes():
    ok, bad = (
        planner()
        .gather((price.call(1), price.call(2)), "settled")
        .read(Answer(outcomes=(Outcome(seq=0, output='"1"'), failed(1, "no", 0))))
    )

    assert ok.value == Decimal(1)
    assert bad.error.message == "no"


def test_a_map_dispatches_its_window_and_then_one_for_each_result():
    def function(ctx: Any) -> list[Decimal]:
        return list(ctx.map(price, [1, 2, 3, 4], window=2))

    body = make_body(function)
    asked: list[Any] = [body.resume(None)]
    while True:
        operation = asked[-1]
        if isinstance(operation, CallSteps):
            event = body.resume(Answer())
        else:
            seq = operation.calls[0].at.seq
            event = body.resume(answer_of(seq, f'"{seq}"'))
        if not isinstance(event, CallSteps | AwaitSteps):
            break
        asked.append(event)

    shape = [(type(each).__name__, [call.at.seq for call in each.calls]) for each in asked]
    assert shape == [
        ("CallSteps", [0, 1]),
        ("AwaitSteps", [0]),
        ("CallSteps", [2]),
        ("AwaitSteps", [1]),
        ("CallSteps", [3]),
        ("AwaitSteps", [2]),
        ("AwaitSteps", [3]),
    ]
    assert event.value == [Decimal(number) for number in range(4)]


def test_a_map_reads_its_inputs_as_it_needs_them():
    read: list[int] = []

    def inputs() -> Any:
        for number in range(100):
            read.append(number)
            yield number

    body = make_body(lambda ctx: next(iter(ctx.map(price, inputs(), window=3))))
    body.resume(None)

    assert read == [0, 1, 2]


@pytest.mark.parametrize("window", [0, -1])
def test_a_map_needs_a_window(window):
    context = make_context()
    with pytest.raises(ValueError, match="window"):
        list(context.map(price, [1], window=window))


def test_what_cannot_be_planned_takes_no_position():
    def function(ctx: Any) -> None:
        misfit: Any = object()
        for operation in (
            lambda: ctx.gather(price.call(1), price.call(misfit)),
            lambda: ctx.sleep("soon"),
            ctx.wait_for_signal,
            lambda: ctx.wait_for_signal("a\nb"),
            lambda: ctx.local_step("", abs, 1),
        ):
            with pytest.raises((PayloadError, InvalidDuration, OperationRefused, InvalidName)):
                operation()
        ctx.sleep(1)

    asked = make_body(function).resume(None)

    assert getattr(asked, "at", asked).seq == 0


def test_a_recorded_value_is_checked_against_its_annotation_when_it_is_made():
    operation = planner().record("side_effect", lambda: "seven", int).operation

    assert isinstance(operation, RecordValue)
    with pytest.raises(PayloadError, match="side_effect"):
        operation.produce()


def test_a_signal_is_read_with_its_token():
    plan = planner().signal(("a", "b"), int, None)

    assert plan.read(answer_of(0, '{"signal":"b","payload":7}')) == ("b", 7)
    with pytest.raises(PayloadError, match="signal 'b'"):
        plan.read(answer_of(0, '{"signal":"b","payload":"x"}'))
    with pytest.raises(WaitTimeout):
        plan.read(Answer(outcomes=(failed(0, "", 0),)))
