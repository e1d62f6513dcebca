"""Steering runs from outside: cancel, retry, time limits, ids."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from django.db import connection

from durable import Context, FatalError, StepFailed, api, current_step, step, workflow
from durable.core.errors import (
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunIdConflict,
    RunNotFound,
    WrongState,
)
from durable.engine.instance import get_engine
from durable.models import SignalWaiter, StepCheckpoint, WorkflowRun
from tests.engine.gates import GATES, gate
from tests.rig.patience import wait_until

CALLS: Counter[tuple[str, str]] = Counter()
STATE: dict[str, Any] = {}
pytestmark = pytest.mark.usefixtures("worker")


def count(what: str) -> int:
    CALLS[what, current_step().run_id] += 1
    return CALLS[what, current_step().run_id]


@workflow(name="steering.waiting")
def waiting(ctx: Context, token: str) -> str:
    ctx.local_step("count", count, "waiting")
    name, _ = ctx.wait_for_signal(token)
    return name


def await_status(run: Any, status: str) -> None:
    wait_until(lambda: run.status == status, what=f"the run to be {status}")


def test_a_suspended_run_is_cancelled_at_once(token):
    run = waiting.start(token)
    await_status(run, "suspended")
    run.cancel()

    assert run.status == "cancelled"
    assert run.failure is not None
    assert run.failure.code == "cancelled"
    with pytest.raises(RunCancelled, match=run.id):
        run.result("1s")
    assert not SignalWaiter.objects.filter(run__run_id=run.id).exists()


def test_cancelling_twice_is_refused_the_second_time(token):
    run = waiting.start(token)
    run.cancel()

    with pytest.raises(WrongState, match="cancelled"):
        run.cancel()


@workflow(name="steering.elsewhere")
def elsewhere(ctx: Context) -> None:
    ctx.sleep("1h")


def test_a_pending_run_is_cancelled_before_it_begins():
    # a pool that nobody drives here would do; a run of the far future does too
    run = elsewhere.options(namespace="steering-nobody").start()
    WorkflowRun.objects.filter(run_id=run.id)
    run.cancel()

    assert run.status == "cancelled"
    assert not WorkflowRun.objects.get(run_id=run.id).wake_at


@workflow(name="steering.limited", execution_timeout="50ms")
def limited(ctx: Context) -> None:
    ctx.sleep("1h")


def test_a_run_ends_with_its_time_limit():
    run = limited.start()
    with pytest.raises(RunCancelled):
        run.result("10s")

    assert run.failure is not None
    assert run.failure.code == "execution_timeout"


@workflow(name="steering.mendable")
def mendable(ctx: Context, token: str) -> list[Any]:
    first = ctx.local_step("first", count, "first")
    second = ctx.step(counted_step, "second")
    if STATE.get(token) != "mended":
        ctx.step(broken_step)
    ctx.sleep("1ms")
    return [first, second, ctx.attempt]


@step(name="steering.counted")
def counted_step(what: str) -> int:
    return count(what)


@step(name="steering.broken")
def broken_step() -> None:
    raise FatalError("broken")


def test_retry_after_the_code_was_mended_keeps_what_was_completed(token):
    run = mendable.start(token)
    with pytest.raises(RunFailed, match="broken"):
        run.result("10s")
    STATE[token] = "mended"
    run.retry()

    assert run.result("10s") == [1, 1, 2]
    assert CALLS["first", run.id] == CALLS["second", run.id] == 1
    record = WorkflowRun.objects.get(run_id=run.id)
    assert (record.generation, record.error, record.recovery_attempts) == (1, None, 0)


@workflow(name="steering.flaky")
def flaky(ctx: Context, token: str) -> int:
    return ctx.step(flaky_step, token)


@step(name="steering.flaky_step")
def flaky_step(token: str) -> int:
    if STATE.get(token) != "up":
        raise FatalError("down")
    return current_step().attempt


def test_retry_tries_the_failed_step_again(token):
    run = flaky.start(token)
    with pytest.raises(RunFailed, match="down"):
        run.result("10s")
    STATE[token] = "up"
    run.retry()

    assert run.result("10s") == 1


@workflow(name="steering.catching")
def catching(ctx: Context, token: str) -> str:
    try:
        ctx.step(flaky_step, token)
    except StepFailed:
        ctx.local_step("note", count, "caught")
    ctx.step(flaky_step, f"{token}-2")
    return "done"


def test_retry_does_not_change_a_failure_that_the_body_had_caught(token):
    run = catching.start(token)
    with pytest.raises(RunFailed, match="down"):
        run.result("10s")
    STATE[token] = STATE[f"{token}-2"] = "up"
    run.retry()

    assert run.result("10s") == "done"
    assert CALLS["caught", run.id] == 1
    assert api.checkpoints(run.id)[0].status == "failed"


@workflow(name="steering.cleaning_up")
def cleaning_up(ctx: Context, token: str, raises: str) -> str:
    try:
        ctx.step(flaky_step, token)
    except StepFailed as failed:
        ctx.local_step("clean up", count, "cleaned up")
        if raises == "again":
            raise
        if raises == "from":
            raise ValueError("not delivered") from failed
        raise ValueError("not delivered")  # noqa: B904  # what happens to those who write it
    return ctx.local_step("deliver", count_delivery)


def count_delivery() -> str:
    return f"delivered {count('delivered')}"


@pytest.mark.parametrize("raises", ["again", "from", "another"])
def test_retry_forgets_what_the_body_did_about_the_failure(token, raises):
    run = cleaning_up.start(token, raises)
    with pytest.raises(RunFailed):
        run.result("10s")
    run.retry()
    with pytest.raises(RunFailed):
        run.result("10s")
    STATE[token] = "up"
    run.retry()

    assert run.result("10s") == "delivered 1"
    assert CALLS["cleaned up", run.id] == 2
    assert [each.name for each in api.checkpoints(run.id)] == ["steering.flaky_step", "deliver"]


@step(name="steering.picky")
def picky(what: str) -> int:
    kind, _, token = what.partition(" ")
    if kind == "bad" and STATE.get(token) != "up":
        run_id = current_step().run_id
        wait_until(lambda: api.checkpoints(run_id)[2].status == "completed", what="the last of the three to be settled")
        raise FatalError("down")
    return count(kind)


@workflow(name="steering.fanned")
def fanned(ctx: Context, token: str, mapped: bool) -> list[int]:
    names = [f"good {token}", f"bad {token}", f"better {token}"]
    try:
        if mapped:
            return list(ctx.map(picky, names, window=3))
        return list(ctx.gather(*(picky.call(name) for name in names)))
    except StepFailed:
        ctx.local_step("clean up", count, "cleaned up")
        raise


@pytest.mark.parametrize("mapped", [False, True], ids=["gather", "map"])
def test_retry_keeps_what_succeeded_beside_the_failure(token, mapped):
    run = fanned.start(token, mapped)
    with pytest.raises(RunFailed, match="down"):
        run.result("10s")
    STATE[token] = "up"
    run.retry()

    assert run.result("10s") == [1, 1, 1]
    assert {what: CALLS[what, run.id] for what in ("good", "bad", "better")} == {"good": 1, "bad": 1, "better": 1}
    assert len(api.checkpoints(run.id)) == 3


@step(name="steering.slowly_broken")
def slowly_broken(token: str) -> str:
    if STATE.get(token) != "up":
        assert GATES[token].wait(20)
        raise FatalError("down, late")
    return "up"


@workflow(name="steering.twice_broken")
def twice_broken(ctx: Context, token: str) -> int:
    ctx.gather(slowly_broken.call(token), flaky_step.call(token), mode="fail_fast")
    return ctx.attempt


def test_retry_tries_also_what_failed_after_the_end_of_the_run(token):
    with gate(token) as opened:
        run = twice_broken.start(token)
        with pytest.raises(RunFailed, match="down"):
            run.result("10s")
        opened.set()
        wait_until(lambda: api.checkpoints(run.id)[0].status == "failed", what="the other step to fail")
    STATE[token] = "up"
    run.retry()

    assert run.result("10s") == 2


def test_a_cancelled_run_can_be_retried(token):
    run = waiting.start(token)
    await_status(run, "suspended")
    run.cancel()
    run.retry()
    api.signal(token)

    assert run.result("10s") == token
    assert CALLS["waiting", run.id] == 1


def test_a_completed_run_is_not_retried(token):
    api.signal(token)
    run = waiting.start(token)
    run.result("10s")

    with pytest.raises(WrongState, match="completed") as caught:
        run.retry()
    assert (caught.value.run_id, caught.value.action, caught.value.status) == (run.id, "retry", "completed")


def test_an_open_run_is_not_retried(token):
    run = waiting.start(token)

    with pytest.raises(WrongState, match="has not ended"):
        run.retry()
    run.cancel()


def test_a_retried_run_runs_what_its_code_says_now_and_no_older_task(token):
    run = stale.start(token)
    with gate(f"{token}-old") as opened:
        STATE[token] = f"{token}-old"
        wait_until(lambda: STATE.get(f"{token}-old") == "begun", what="the step to begin")
        run.cancel()
        STATE[token] = "new"
        run.retry()
        wait_until(lambda: len(api.checkpoints(run.id)) == 2, what="the step to be dispatched again")
        opened.set()

        assert run.result("10s") == "new"


@workflow(name="steering.stale")
def stale(ctx: Context, token: str) -> str:
    ctx.sleep("1ms")
    return ctx.step(echo, STATE[token])


@step(name="steering.echo")
def echo(text: str) -> str:
    if text in GATES:
        STATE[text] = "begun"
        assert GATES[text].wait(20)
    return text


def test_starting_an_id_again_gives_the_same_run(token, caplog):
    api.signal(token)
    run = waiting.start_as(f"run-{token}", token)
    again = waiting.start_as(f"run-{token}", token)

    assert again.id == run.id
    assert again.result("10s") == token
    assert CALLS["waiting", run.id] == 1
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_starting_an_id_again_with_another_input_warns(token, caplog):
    waiting.start_as(f"run-{token}", token)
    again = waiting.start_as(f"run-{token}", "another")

    assert WorkflowRun.objects.get(run_id=again.id).input == f'"{token}"'
    assert any("another input" in each.message and each.run_id == again.id for each in caplog.records)
    again.cancel()


def test_an_id_of_another_workflow_is_a_conflict(token):
    run = waiting.start_as(f"run-{token}", token)

    with pytest.raises(RunIdConflict) as caught:
        elsewhere.start_as(f"run-{token}")
    assert caught.value.existing_workflow == "steering.waiting"
    assert caught.value.requested_workflow == "steering.elsewhere"
    run.cancel()


def test_runs_are_listed_the_newest_first(token):
    runs = [waiting.options(namespace=token).start(token) for _ in range(3)]
    ids = [run.id for run in runs]

    assert [each.run_id for each in api.list_runs(namespace=token)] == ids[::-1]
    assert [each.run_id for each in api.list_runs(namespace=token, limit=1)] == ids[2:]
    middle = api.list_runs(namespace=token)[1].id
    assert [each.run_id for each in api.list_runs(namespace=token, before_id=middle)] == ids[:1]
    for run in runs:
        run.cancel()
    assert [each.run_id for each in api.list_runs(namespace=token, status="cancelled")] == ids[::-1]


def test_unknown_runs_are_not_found(token):
    for call in (api.get_run, api.cancel, api.retry, api.checkpoints, api.wait):
        with pytest.raises(RunNotFound, match=token):
            call(token)


def test_waiting_has_a_limit(token):
    run = waiting.start(token)
    with pytest.raises(ResultTimeout) as caught:
        run.result(0)

    assert isinstance(caught.value, TimeoutError)
    run.cancel()
    assert api.wait(run.id, "1s").status == "cancelled"


def test_runs_whose_code_is_nowhere_stay_as_they_are(token):
    run = waiting.start(token)
    await_status(run, "suspended")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_workflow_runs SET version = '99', wake_at_us = 1 WHERE run_id = %s", [run.id])
    get_engine().changed()
    waiting.start_as(f"probe-{token}", f"probe-{token}").signal(f"probe-{token}")
    api.get_run(f"probe-{token}").result("10s")

    assert run.status == "suspended"
    run.cancel()


def test_no_orphans_are_left():
    assert get_engine().store.find_orphans() == []
    assert not StepCheckpoint.objects.filter(run__status="completed", status="running").exists()
