"""Bodies that are driven by hand: operations come out, answers go in."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from durable.core.errors import BodyDiscarded, OperationRefused
from durable.replay.body import UNWIND_LIMIT, CoroutineBody, GreenletBody, Raised, Returned
from durable.replay.context import BodyContext, Surroundings
from durable.replay.operations import Answer, Outcome, RunLocal, Sleep


def nothing(label: str) -> None:
    """Refuse no operation."""


def make_context(guard: Any = nothing) -> BodyContext:
    surroundings = Surroundings(
        now=lambda: datetime(2024, 1, 1, tzinfo=UTC),
        uuid=lambda: UUID(int=1),
        random=lambda: 0.5,
        instant_us=lambda instant: int(instant.timestamp() * 1_000_000),
        guard=guard,
        limit_bytes=None,
    )
    return BodyContext("run-1", 1, surroundings)


def make_body(function: Any, context: BodyContext | None = None, *, is_async: bool = False) -> Any:
    context = context or make_context()
    body: Any = CoroutineBody(lambda: function(context)) if is_async else GreenletBody(lambda: function(context))
    context.body = body
    return body


def answer_of(seq: int, text: str = "null") -> Answer:
    return Answer(outcomes=(Outcome(seq=seq, output=text),))


def test_a_body_asks_and_goes_on_with_the_answer():
    body = make_body(lambda ctx: [ctx.local_step("a", abs_of, -1), ctx.local_step("b", abs_of, -2)])

    first = body.resume(None)
    second = body.resume(answer_of(0, "7"))
    end = body.resume(answer_of(1, "8"))

    assert isinstance(first, RunLocal)
    assert (first.at.seq, first.at.name, second.at.seq, second.at.name) == (0, "a", 1, "b")
    assert first.input == "-1"
    assert end == Returned([7, 8])


def abs_of(number: int) -> int:
    return abs(number)


def test_an_async_body_asks_and_goes_on_with_the_answer():
    async def function(ctx: BodyContext) -> list[Any]:
        number = await ctx.alocal_step("a", abs_of, -1)
        await ctx.asleep(5)
        return [number]

    body = make_body(function, is_async=True)
    first = body.resume(None)
    second = body.resume(answer_of(0, "7"))
    end = body.resume(answer_of(1))

    assert isinstance(first, RunLocal)
    assert isinstance(second, Sleep)
    assert second.delay_us == 5_000_000
    assert end == Returned([7])


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_whatever_a_body_raises_is_its_end(error):
    def function(ctx: BodyContext) -> None:
        raise error

    assert make_body(function).resume(None) == Raised(error)


def test_except_exception_sees_no_discarding_and_finally_runs():
    seen: list[str] = []

    def function(ctx: BodyContext) -> None:
        try:
            ctx.sleep(1)
        except Exception as error:  # noqa: BLE001  # what must see nothing
            seen.append(repr(error))
        finally:
            seen.append("finally")

    body = make_body(function)
    body.resume(None)

    assert body.discard()
    assert seen == ["finally"]


def test_operations_while_a_body_unwinds_raise_again():
    seen: list[str] = []

    def function(ctx: BodyContext) -> None:
        try:
            ctx.sleep(1)
        finally:
            for operation in (lambda: ctx.sleep(1), lambda: ctx.local_step("a", abs_of, 1)):
                try:
                    operation()
                except BodyDiscarded:
                    seen.append("raised again")
            ctx.sleep(1)

    body = make_body(function)
    body.resume(None)

    assert body.discard()
    assert seen == ["raised again"] * 2


async def swallow_later(ctx: BodyContext) -> str:
    try:
        await ctx.asleep(1)
    except:  # noqa: E722  # the mistake that is tested
        return "swallowed"
    return "slept"


def swallow(ctx: BodyContext) -> str:
    try:
        ctx.sleep(1)
    except:  # noqa: E722  # the mistake that is tested
        return "swallowed"
    return "slept"


def convert(ctx: BodyContext) -> None:
    try:
        ctx.sleep(1)
    except BaseException as error:
        raise ValueError("another") from error


async def convert_later(ctx: BodyContext) -> None:
    try:
        await ctx.asleep(1)
    except BaseException as error:
        raise ValueError("another") from error


def swallow_for_ever(ctx: BodyContext) -> None:
    while True:
        try:
            ctx.sleep(1)
        except:  # noqa: E722  # the mistake that is tested
            continue


async def swallow_for_ever_later(ctx: BodyContext) -> None:
    while True:
        try:
            await ctx.asleep(1)
        except:  # noqa: E722  # the mistake that is tested
            continue


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (swallow, False),
        (convert, False),
        (swallow_for_ever, False),
        (swallow_later, True),
        (convert_later, True),
        (swallow_for_ever_later, True),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_body_that_swallows_its_discarding_is_found_out(function, is_async):
    body = make_body(function, is_async=is_async)
    body.resume(None)

    assert not body.discard()


@pytest.mark.parametrize("is_async", [False, True])
def test_bodies_that_never_began_or_have_ended_are_discarded_in_peace(is_async):
    async def end_later(ctx: BodyContext) -> None:
        return None

    fresh = make_body(end_later if is_async else lambda ctx: None, is_async=is_async)
    ended = make_body(end_later if is_async else lambda ctx: None, is_async=is_async)
    ended.resume(None)

    assert fresh.discard()
    assert ended.discard()
    assert ended.discard()


def test_the_limit_of_patience_leaves_honest_clean_up_alone():
    tries: list[int] = []

    def function(ctx: BodyContext) -> None:
        try:
            ctx.sleep(1)
        finally:
            for number in range(UNWIND_LIMIT // 2):
                try:
                    ctx.sleep(1)
                except BodyDiscarded:
                    tries.append(number)

    body = make_body(function)
    body.resume(None)

    assert body.discard()
    assert len(tries) == UNWIND_LIMIT // 2


def test_an_operation_from_another_thread_is_refused_and_takes_no_position():
    errors: list[Exception] = []

    def function(ctx: BodyContext) -> None:
        def ask() -> None:
            try:
                ctx.sleep(1)
            except Exception as error:  # noqa: BLE001  # looked at below
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        ctx.sleep(2)

    asked = make_body(function).resume(None)

    assert isinstance(errors[0], OperationRefused)
    assert errors[0].operation == "ctx.sleep"
    assert (asked.at.seq, asked.delay_us) == (0, 2_000_000)


def test_a_guarded_operation_is_refused_and_takes_no_position():
    closed = [True]

    def guard(label: str) -> None:
        if closed[0]:
            raise OperationRefused(label, "a transaction is open", "Close it.")

    def function(ctx: BodyContext) -> None:
        with pytest.raises(OperationRefused):
            ctx.sleep(1)
        closed[0] = False
        ctx.sleep(2)

    assert make_body(function, make_context(guard)).resume(None).at.seq == 0


def test_an_operation_outside_of_any_body_is_refused():
    context = make_context()
    with pytest.raises(OperationRefused):
        context.sleep(1)

    body = make_body(lambda ctx: None, context)
    body.resume(None)
    with pytest.raises(OperationRefused, match=r"ctx\.sleep"):
        context.sleep(1)


def test_the_twin_of_the_wrong_kind_is_refused_by_name():
    async def function(ctx: BodyContext) -> None:
        ctx.sleep(1)

    end = make_body(function, is_async=True).resume(None)
    assert isinstance(end, Raised)
    assert "ctx.asleep" in str(end.error)

    def plain(ctx: BodyContext) -> None:
        ctx.asleep(1).send(None)

    end = make_body(plain).resume(None)
    assert isinstance(end, Raised)
    assert "Call ctx.sleep instead" in str(end.error)


class Foreign:
    def __await__(self) -> Any:
        yield "something"


def test_an_async_body_may_await_its_context_only():
    cleaned: list[str] = []

    async def function(ctx: BodyContext) -> None:
        try:
            await Foreign()
        finally:
            cleaned.append("finally")

    end = make_body(function, is_async=True).resume(None)

    assert isinstance(end, Raised)
    assert isinstance(end.error, OperationRefused)
    assert "__await__" in end.error.operation or "Foreign" in end.error.operation
    assert cleaned == ["finally"]


def test_context_variables_of_a_body_stay_in_it():
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="outside")

    def function(ctx: BodyContext) -> str:
        variable.set("inside")
        ctx.sleep(1)
        return variable.get()

    body = make_body(function)
    body.resume(None)

    assert variable.get() == "outside"
    assert body.resume(answer_of(0)) == Returned("inside")
