"""Bodies that leave their history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from durable import Context, api, current_step, step, workflow
from durable.core.errors import RunFailed
from durable.models import WorkflowRun
from tests.rig.patience import wait_until

CALLS: Counter[tuple[str, str]] = Counter()
BODIES: dict[str, Callable[[Context], Any]] = {}
pytestmark = pytest.mark.usefixtures("worker")


def count(what: str) -> int:
    CALLS[what, current_step().run_id] += 1
    return CALLS[what, current_step().run_id]


@step(name="replaying.count", retries=0)
def count_step(what: str) -> int:
    return count(what)


@workflow(name="replaying.changing")
def changing(ctx: Context, token: str) -> Any:
    return BODIES[token](ctx)


def original(token: str) -> Callable[[Context], Any]:
    def body(ctx: Context) -> Any:
        first = ctx.local_step("first", count, "first")
        second = ctx.step(count_step, "second")
        ctx.wait_for_signal(token)
        return [first, second]

    return body


def leave_history(token: str, body: Callable[[Context], Any]) -> Any:
    """Run the original until it waits, then let another body go on from the top; return the run."""
    BODIES[token] = original(token)
    run = changing.start(token)
    wait_until(lambda: run.status == "suspended" and len(api.checkpoints(run.id)) == 3, what="the run to wait")
    run.cancel()  # whatever body is parked belongs to this generation
    BODIES[token] = body
    run.retry()
    return run


def other_name(ctx: Context) -> Any:
    return ctx.local_step("another", count, "another")


def other_kind(ctx: Context) -> Any:
    return ctx.step(count_step.options(queue="elsewhere"), "first")


def other_order(ctx: Context) -> Any:
    ctx.local_step("first", count, "first")
    ctx.sleep("1h")


def wider(ctx: Context) -> Any:
    ctx.local_step("first", count, "first")
    return ctx.gather(count_step.call("second"), count_step.call("third"))


@pytest.mark.parametrize(
    ("body", "seq", "asked"),
    [
        (other_name, 0, "local 'another'"),
        (other_kind, 0, "remote 'replaying.count'"),
        (other_order, 1, "sleep 'sleep'"),
    ],
)
def test_a_body_that_leaves_its_history_fails_its_run(token, body, seq, asked):
    run = leave_history(token, body)
    with pytest.raises(RunFailed, match=f"left its history at position {seq}") as caught:
        run.result("10s")

    assert caught.value.failure is not None
    assert caught.value.failure.code == "non_determinism"
    assert run.id in caught.value.failure.message
    assert asked in caught.value.failure.message
    assert CALLS["another", run.id] == 0
    assert CALLS["first", run.id] == 1
    names = [each.name for each in api.checkpoints(run.id)]
    assert names == ["first", "replaying.count"]


def test_a_mended_body_goes_on_from_its_history(token):
    run = leave_history(token, other_name)
    with pytest.raises(RunFailed):
        run.result("10s")
    BODIES[token] = original(token)
    run.retry()
    api.signal(token)

    assert run.result("10s") == [1, 1]
    assert CALLS["first", run.id] == CALLS["second", run.id] == 1
    assert WorkflowRun.objects.get(run_id=run.id).generation == 2


def test_a_body_that_catches_everything_does_not_catch_a_mismatch(token):
    def careless(ctx: Context) -> Any:
        try:
            return ctx.local_step("another", count, "another")
        except Exception:  # noqa: BLE001  # what must see nothing
            return "caught"

    run = leave_history(token, careless)
    with pytest.raises(RunFailed, match="left its history"):
        run.result("10s")


def test_a_body_that_ends_before_its_history_fails(token):
    run = leave_history(token, lambda ctx: "early")

    with pytest.raises(RunFailed, match=r"NonDeterminismError.*the end of the body"):
        run.result("10s")


def test_a_gather_that_became_wider_dispatches_what_is_new(token):
    BODIES[token] = original(token)

    def with_signal(ctx: Context) -> Any:
        ctx.local_step("first", count, "first")
        ctx.gather(count_step.call("second"))
        ctx.wait_for_signal(token)

    BODIES[token] = with_signal
    run = changing.start(token)
    wait_until(lambda: run.status == "suspended" and len(api.checkpoints(run.id)) == 3, what="the run to wait")
    run.cancel()
    BODIES[token] = wider
    run.retry()

    # the wait for the signal went with the cancel, so its position is free
    assert run.result("10s") == [1, 1]


@workflow(name="replaying.versioned", version="1")
def versioned(ctx: Context, token: str) -> str:
    ctx.wait_for_signal(token)
    return "1"


@workflow(name="replaying.versioned", version="2")
def versioned_2(ctx: Context, token: str) -> str:
    ctx.wait_for_signal(token)
    return "2"


def test_a_run_stays_on_the_version_that_it_began_with(token):
    first = versioned.start(token)
    newest = api.start("replaying.versioned", f"{token}-2")
    pinned = api.start("replaying.versioned", f"{token}-3", version="1")
    for name in (token, f"{token}-2", f"{token}-3"):
        api.signal(name)

    assert [run.result("10s") for run in (first, newest, pinned)] == ["1", "2", "1"]


@workflow(name="replaying.foreign")
async def foreign(ctx: Context, seconds: float) -> None:
    import asyncio

    await ctx.alocal_step("first", count, "first")
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("seconds", [0, 1])
def test_an_async_body_that_awaits_something_else_fails_by_name(seconds):
    run = foreign.start(seconds)
    with pytest.raises(RunFailed, match=r"await .*sleep.* is refused") as caught:
        run.result("10s")

    assert caught.value.failure is not None
    assert caught.value.failure.code == "operation_refused"


@workflow(name="replaying.late")
def late(ctx: Context) -> str:
    CONTEXTS.append(ctx)
    return "done"


CONTEXTS: list[Context] = []


def test_an_operation_after_the_end_is_refused():
    from durable.core.errors import OperationRefused

    assert late.start().result("10s") == "done"
    with pytest.raises(OperationRefused):
        CONTEXTS[-1].sleep("1s")
