"""Each operation of a body, first time and after its body was thrown away."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from durable import Context, FatalError, StepFailed, api, current_step, ref, step, workflow
from durable.core.errors import RunFailed
from tests.rig.patience import wait_until

CALLS: Counter[tuple[str, str]] = Counter()
pytestmark = pytest.mark.usefixtures("worker")


def count(what: str) -> None:
    CALLS[what, current_step().run_id] += 1


def add(left: int, right: int) -> int:
    count("add")
    return left + right


async def add_later(left: int, right: int) -> int:
    count("add_later")
    return left + right


@step(name="primitives.double")
def double(number: int) -> int:
    count("double")
    return 2 * number


@step(name="primitives.double_async")
async def double_async(number: int) -> int:
    count("double_async")
    return 2 * number


@step(name="primitives.double_watched", timeout="20s")
def double_watched(number: int) -> int:
    count("double_watched")
    return 2 * number


@step(name="primitives.refuse")
def refuse(number: int) -> int:
    count("refuse")
    raise FatalError(f"not {number}", code="refused")


@step(name="primitives.odd_only")
def odd_only(number: int) -> int:
    if number % 2 == 0:
        raise FatalError(f"{number} is even", code="even")
    return number


@workflow(name="primitives.locally")
def locally(ctx: Context, number: int) -> list[int]:
    first = ctx.local_step("add", add, number, right=1)
    second = ctx.local_step("add later", add_later, first, 1)
    third = ctx.local_step("double", double, second)
    ctx.sleep("1ms")
    return [first, second, third, ctx.local_step("add", add, third, 1)]


def test_local_steps_run_once_and_in_order():
    run = locally.start(1)

    assert run.result("10s") == [2, 3, 6, 7]
    assert CALLS["add", run.id] == 2
    assert CALLS["add_later", run.id] == CALLS["double", run.id] == 1
    assert [(each.seq, each.name, each.kind, each.status, each.attempts) for each in api.checkpoints(run.id)] == [
        (0, "add", "local", "completed", 1),
        (1, "add later", "local", "completed", 1),
        (2, "double", "local", "completed", 1),
        (3, "sleep", "sleep", "completed", 0),
        (4, "add", "local", "completed", 1),
    ]


@workflow(name="primitives.remotely")
def remotely(ctx: Context, number: int) -> list[int]:
    return [
        ctx.local_step("add", add, number, 0),
        ctx.step(double, number),
        ctx.step(double_async, number),
        ctx.step(double_watched, number),
        ctx.step(double_watched.options(timeout=None), number=number),
        ctx.step_by_name("primitives.double", number, returns=int),
    ]


def test_dispatched_steps_run_once_and_in_order():
    run = remotely.start(4)

    assert run.result("10s") == [4, 8, 8, 8, 8, 8]
    assert CALLS["add", run.id] == 1
    assert CALLS["double", run.id] == CALLS["double_watched", run.id] == 2
    assert {each.status for each in api.checkpoints(run.id)} == {"completed"}


def test_a_run_that_ended_leaves_no_message_and_no_waiter():
    from durable.models import SignalWaiter, TransportMessage

    run = remotely.start(5)
    run.result("10s")
    pk = api.list_runs(workflow="primitives.remotely", limit=1)[0].id

    assert not TransportMessage.objects.filter(run=pk).exists()
    assert not SignalWaiter.objects.filter(run_id=pk).exists()


@workflow(name="primitives.catching")
def catching(ctx: Context, number: int) -> list[Any]:
    try:
        ctx.step(refuse, number)
    except StepFailed as failed:
        return [failed.step, failed.code, failed.message, failed.attempts, failed.seq]
    return []


def test_a_body_catches_the_failure_of_a_step():
    assert catching.start(7).result("10s") == ["primitives.refuse", "refused", "not 7", 1, 0]


@workflow(name="primitives.gathering")
def gathering(ctx: Context, numbers: list[int], mode: str) -> Any:
    try:
        results = ctx.gather(*(odd_only.call(number) for number in numbers), mode=mode)  # type: ignore[call-overload]
    except StepFailed as failed:
        return ["failed", failed.message, failed.seq]
    if mode == "settled":
        return [each.value if each.ok else str(each.error) for each in results]
    return list(results)


@pytest.mark.parametrize(
    ("numbers", "mode", "expected"),
    [
        ([], "wait_all", []),
        ([1], "wait_all", [1]),
        ([1, 3, 5, 7], "wait_all", [1, 3, 5, 7]),
        ([1, 3, 4, 6], "wait_all", ["failed", "4 is even", 2]),
        ([3, 4, 5], "fail_fast", ["failed", "4 is even", 1]),
        ([1, 3], "fail_fast", [1, 3]),
    ],
)
def test_gather_gives_results_in_order_or_the_first_failure(numbers, mode, expected):
    assert gathering.start(numbers, mode).result("10s") == expected


@workflow(name="primitives.settling")
def settling(ctx: Context, numbers: list[int]) -> list[str]:
    results = ctx.gather(*(odd_only.call(number) for number in numbers), mode="settled")
    return [f"{type(each).__name__} {each}" for each in results]


def test_gather_settled_raises_nothing():
    first, second, third = settling.start([1, 2, 3]).result("10s")

    assert first.startswith("Ok ")
    assert second.startswith("Failed ")
    assert "2 is even" in second
    assert third.startswith("Ok ")


@step(name="primitives.held")
def held(token: str) -> str:
    from tests.engine.gates import GATES

    assert GATES[token].wait(20)
    return token


@workflow(name="primitives.fast_failure")
def fast_failure(ctx: Context, token: str) -> str:
    try:
        ctx.gather(held.call(token), refuse.call(1), mode="fail_fast")
    except StepFailed as failed:
        return failed.message
    return "nothing failed"


def test_fail_fast_does_not_wait_for_the_others(token):
    from tests.engine.gates import gate

    with gate(token):
        assert fast_failure.start(token).result("10s") == "not 1"


@workflow(name="primitives.mapping")
def mapping(ctx: Context, numbers: list[int], window: int) -> list[int]:
    return list(ctx.map(double, numbers, window=window))


@pytest.mark.parametrize(("many", "window"), [(0, 3), (1, 3), (7, 1), (7, 3), (5, 50)])
def test_map_yields_in_the_order_of_the_inputs(many, window):
    run = mapping.start(list(range(many)), window)

    assert run.result("20s") == [2 * number for number in range(many)]
    assert CALLS["double", run.id] == many


@workflow(name="primitives.watched_map")
def watched_map(ctx: Context, numbers: list[int]) -> list[int]:
    return list(ctx.map(double_watched, numbers, window=2))


def test_map_over_steps_with_a_time_limit():
    run = watched_map.start([1, 2, 3, 4])

    assert run.result("20s") == [2, 4, 6, 8]
    assert CALLS["double_watched", run.id] == 4


@workflow(name="primitives.windowed")
def windowed(ctx: Context, tokens: list[str]) -> list[str]:
    return list(ctx.map(held, tokens, window=2))


def test_map_has_no_more_under_way_than_its_window(token):
    from tests.engine.gates import gate

    tokens = [f"{token}-{index}" for index in range(4)]
    with gate(tokens[0]) as first, gate(tokens[1]) as second, gate(tokens[2]) as third, gate(tokens[3]) as fourth:
        run = windowed.start(tokens)
        wait_until(lambda: len(api.checkpoints(run.id)) == 2, what="the window to be under way")
        second.set()
        wait_until(lambda: api.checkpoints(run.id)[1].status == "completed", what="the second to be settled")

        assert len(api.checkpoints(run.id)) == 2

        first.set()
        wait_until(lambda: len(api.checkpoints(run.id)) == 4, what="the window to move")
        third.set()
        fourth.set()

        assert run.result("10s") == tokens


@workflow(name="primitives.settled_map")
def settled_map(ctx: Context, numbers: list[int]) -> list[bool]:
    return [type(each).__name__ == "Ok" for each in ctx.map(odd_only, numbers, mode="settled")]


def test_map_settled_yields_outcomes():
    assert settled_map.start([1, 2, 3]).result("10s") == [True, False, True]


@workflow(name="primitives.abandoned_map")
def abandoned_map(ctx: Context, numbers: list[int]) -> int:
    first = 0
    for value in ctx.map(double, numbers, window=3):
        first = value
        break
    return first + ctx.step(double, 100)


def test_a_map_may_be_left_early():
    assert abandoned_map.start([1, 2, 3, 4]).result("10s") == 202


@workflow(name="primitives.sleeping")
def sleeping(ctx: Context, delay_s: float) -> list[datetime]:
    before = ctx.now()
    ctx.sleep(delay_s)
    between = ctx.now()
    ctx.sleep_until(between + timedelta(seconds=delay_s))
    return [before, between, ctx.now()]


def test_sleep_never_ends_early():
    before, between, after = sleeping.start(0.05).result("10s")

    assert between - before >= timedelta(seconds=0.05)
    assert after - between >= timedelta(seconds=0.05)


@workflow(name="primitives.past")
def past(ctx: Context) -> bool:
    ctx.sleep_until(datetime(2000, 1, 1, tzinfo=UTC))
    ctx.sleep(0)
    return True


def test_an_instant_in_the_past_does_not_wait():
    assert past.start().result("10s") is True


@workflow(name="primitives.recorded")
def recorded(ctx: Context) -> list[Any]:
    def read() -> list[Any]:
        stamp, key, draw = ctx.now(), ctx.uuid(), ctx.random()
        thing = ctx.side_effect(lambda: Decimal("1.10"), returns=Decimal)
        return [repr(stamp), repr(key), repr(draw), repr(thing)]

    seen = read()
    ctx.local_step("note", note, seen)
    ctx.sleep("1ms")
    ctx.local_step("note", note, seen)
    return seen


SEEN: dict[str, list[list[str]]] = {}


def note(seen: list[str]) -> None:
    SEEN.setdefault(current_step().run_id, []).append(seen)


def test_recorded_values_stay_the_same():
    run = recorded.start()
    result = run.result("10s")

    assert SEEN[run.id] == [result, result]
    assert result[1].startswith("UUID(")
    assert result[3] == "Decimal('1.10')"
    assert datetime.now(UTC) - eval(result[0], {"datetime": __import__("datetime")}) < timedelta(minutes=1)
    assert 0 <= float(result[2]) < 1
    assert UUID(result[1][6:-2]).version


@workflow(name="primitives.bad_side_effect")
def bad_side_effect(ctx: Context) -> str:
    def explode() -> None:
        raise ValueError("boom")

    try:
        ctx.side_effect(explode)
    except StepFailed as failed:
        ctx.sleep("1ms")
        return failed.message
    return ""


def test_a_side_effect_that_raises_is_recorded():
    run = bad_side_effect.start()

    assert run.result("10s") == "boom"
    assert api.checkpoints(run.id)[0].status == "failed"


def make_group(name: str) -> int:
    count("make_group")
    return Group.objects.create(name=name).pk


def make_and_fail(name: str) -> int:
    Group.objects.create(name=name)
    raise FatalError("after the write")


def write_elsewhere(name: str) -> None:
    Group.objects.using("other").create(name=name)


@workflow(name="primitives.transacting")
def transacting(ctx: Context, name: str) -> int:
    made = ctx.transaction("make group", make_group, name)
    ctx.sleep("1ms")
    return made


def test_a_transaction_commits_its_writes_with_its_checkpoint(token):
    run = transacting.start(token)
    made = run.result("10s")

    assert Group.objects.get(name=token).pk == made
    assert CALLS["make_group", run.id] == 1
    assert api.checkpoints(run.id)[0].kind == "transaction"


@workflow(name="primitives.failing_transaction")
def failing_transaction(ctx: Context, name: str) -> str:
    try:
        ctx.transaction("make group", make_and_fail, name)
    except StepFailed as failed:
        return failed.message
    return ""


def test_a_transaction_that_raises_leaves_nothing(token):
    assert failing_transaction.start(token).result("10s") == "after the write"
    assert not Group.objects.filter(name=token).exists()


@workflow(name="primitives.straying_transaction")
def straying_transaction(ctx: Context, name: str) -> str:
    try:
        ctx.transaction("elsewhere", write_elsewhere, name)
    except StepFailed as failed:
        return failed.message
    return ""


def test_a_transaction_refuses_to_write_to_another_database(token):
    assert "'other'" in straying_transaction.start(token).result("10s")
    assert not Group.objects.using("other").filter(name=token).exists()


def break_a_constraint(name: str) -> None:
    Group.objects.create(name=name)
    Group.objects.create(name=name)


@workflow(name="primitives.broken_transaction")
def broken_transaction(ctx: Context, name: str) -> str:
    try:
        ctx.transaction("break", ref(break_a_constraint, retries=0), name)
    except StepFailed as failed:
        return failed.message
    return ""


def test_a_database_error_in_a_transaction_is_the_failure_of_the_step(token):
    assert "unique" in broken_transaction.start(token).result("10s").lower()
    assert not Group.objects.filter(name=token).exists()


def swallow_a_database_error(name: str) -> int:
    from django.db import IntegrityError, transaction

    Group.objects.create(name=name)
    try:
        with transaction.atomic():
            Group.objects.create(name=name)
    except IntegrityError:
        pass
    return Group.objects.filter(name=name).count()


@workflow(name="primitives.swallowing_transaction")
def swallowing_transaction(ctx: Context, name: str) -> int:
    return ctx.transaction("swallow", swallow_a_database_error, name)


def test_a_transaction_may_use_savepoints(token):
    assert swallowing_transaction.start(token).result("10s") == 1


@workflow(name="primitives.telling")
def telling(ctx: Context) -> list[Any]:
    ctx.log.info("first")
    ctx.local_step("add", add, 1, 1)
    ctx.log.info("second")
    ctx.sleep("1ms")
    ctx.log.info("third")
    return [ctx.run_id, ctx.attempt, ctx.is_replaying]


def test_a_body_logs_each_line_once(caplog):
    with caplog.at_level(logging.INFO, "durable.workflow"):
        run = telling.start()
        result = run.result("10s")
    lines = [record.message for record in caplog.records if getattr(record, "run_id", None) == run.id]

    assert result == [run.id, 1, False]
    assert [line for line in lines if line in {"first", "second", "third"}] == ["first", "second", "third"]


@workflow(name="primitives.awaiting")
async def awaiting(ctx: Context, number: int, token: str) -> list[Any]:
    first = await ctx.alocal_step("add", add, number, 1)
    second = await ctx.astep(double, first)
    third = await ctx.agather(double.call(1), double_async.call(2))
    fourth = [value async for value in ctx.amap(double, [1, 2, 3], window=2)]
    await ctx.asleep("1ms")
    name, payload = await ctx.await_for_signal(token, type=int)
    fifth = await ctx.aside_effect(lambda: 5)
    now = await ctx.anow()
    made = await ctx.atransaction("make group", make_group, token)
    key, draw = await ctx.auuid(), await ctx.arandom()
    await ctx.asleep_until(now)
    assert isinstance(key, UUID)
    assert 0 <= draw < 1
    by_name = await ctx.astep_by_name("primitives.double", 21, returns=int)
    return [first, second, list(third), fourth, name, payload, fifth, bool(made), by_name]


def test_an_async_body_does_everything_with_awaits(token):
    run = awaiting.start(1, token)
    api.signal(token, 9)

    assert run.result("20s") == [2, 4, [2, 4], [2, 4, 6], token, 9, 5, True, 42]
    assert CALLS["add", run.id] == CALLS["make_group", run.id] == 1


@workflow(name="primitives.raising")
def raising(ctx: Context) -> None:
    ctx.local_step("add", add, 1, 1)
    raise KeyError("lost")


def test_an_exception_of_the_body_fails_the_run():
    run = raising.start()
    with pytest.raises(RunFailed) as caught:
        run.result("10s")

    assert run.status == "failed"
    assert caught.value.failure is not None
    assert caught.value.failure.kind == "KeyError"
    assert "raising" in (caught.value.failure.traceback or "")


@workflow(name="primitives.uncaught")
def uncaught(ctx: Context) -> None:
    ctx.step(refuse, 1)


def test_a_failed_step_that_nobody_catches_fails_the_run():
    run = uncaught.start()
    with pytest.raises(RunFailed, match="not 1"):
        run.result("10s")

    assert run.failure is not None
    assert (run.failure.kind, run.failure.code, run.failure.seq) == ("StepFailed", "refused", 0)


@workflow(name="primitives.nothing")
def nothing(ctx: Context) -> None:
    return None


def test_an_empty_body_completes():
    run = nothing.start()

    assert run.result("10s") is None
    assert run.status == "completed"
    assert api.checkpoints(run.id) == []


def test_options_of_a_plain_function_hang_on_a_reference():
    attempts: list[int] = []

    def flaky() -> int:
        attempts.append(current_step().attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return len(attempts)

    REFERENCES["flaky"] = ref(flaky, retries=5, backoff="fixed", backoff_base="1ms", jitter=False)

    assert referring.start().result("10s") == 3
    assert attempts == [1, 2, 3]


REFERENCES: dict[str, Any] = {}


@workflow(name="primitives.referring")
def referring(ctx: Context) -> int:
    result: int = ctx.local_step("flaky", REFERENCES["flaky"])
    return result


def test_threads_keep_their_connections():
    assert "default" in connections
