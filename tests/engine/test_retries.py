"""Attempts of steps: how often, when, and what ends them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from durable import Context, FatalError, StepFailed, api, current_step, ref, step, workflow
from durable.core.errors import RunFailed, StepTimeout
from durable.models import StepCheckpoint
from tests.engine.gates import GATES, gate
from tests.rig.patience import wait_until

CALLS: Counter[tuple[str, str]] = Counter()
pytestmark = pytest.mark.usefixtures("worker")


def fail_until(number: int) -> int:
    attempt = current_step().attempt
    CALLS["fail_until", current_step().run_id] += 1
    if attempt < number:
        raise ValueError(f"attempt {attempt}")
    return attempt


fail_until_step = step(name="retries.fail_until", retries=4, backoff="fixed", backoff_base="5ms", jitter=False)(
    fail_until
)
patient_step = step(
    name="retries.patient", retries=4, backoff="fixed", backoff_base="1h", backoff_max="1h", jitter=False
)(fail_until)


@workflow(name="retries.remotely")
def remotely(ctx: Context, number: int) -> int:
    return ctx.step(fail_until_step, number)


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_dispatched_step_is_tried_until_it_succeeds(number):
    run = remotely.start(number)

    assert run.result("20s") == number
    assert api.checkpoints(run.id)[0].attempts == number
    assert CALLS["fail_until", run.id] == number


def test_a_dispatched_step_fails_for_good_after_its_last_attempt():
    run = remotely.start(9)
    with pytest.raises(RunFailed, match="attempt 5"):
        run.result("20s")

    assert CALLS["fail_until", run.id] == 5
    assert run.failure is not None
    assert run.failure.attempts == 5


@workflow(name="retries.patiently")
def patiently(ctx: Context, number: int) -> int:
    return ctx.step(patient_step, number)


def make_due(run_id: str, seq: int) -> None:
    """Let a stored deadline have passed."""
    from durable.models import WorkflowRun

    pk = WorkflowRun.objects.get(run_id=run_id).id
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_step_checkpoints SET wake_at_us = 1 WHERE run_pk = %s AND seq = %s", [pk, seq])
        cursor.execute("UPDATE durable_workflow_runs SET wake_at_us = 1 WHERE id = %s AND status = 'suspended'", [pk])
    api.get_run(run_id)
    from durable.engine.instance import get_engine

    get_engine().changed()


def test_the_deadline_of_the_next_attempt_is_stored_not_slept(worker):
    run = patiently.start(2)
    wait_until(lambda: run.status == "suspended" and api.checkpoints(run.id)[0].attempts == 2, what="the next attempt")
    checkpoint = api.checkpoints(run.id)[0]

    assert checkpoint.status == "pending"
    assert checkpoint.enqueued_at is None
    assert (checkpoint.wake_at - checkpoint.started_at).total_seconds() == pytest.approx(3600, abs=5)
    assert api.list_runs(workflow="retries.patiently", limit=1)[0].wake_at is not None

    make_due(run.id, 0)

    assert run.result("20s") == 2


@workflow(name="retries.locally")
def locally(ctx: Context, number: int, retries: int, wait: str) -> Any:
    target = ref(fail_until, retries=retries, backoff="fixed", backoff_base=wait, jitter=False)
    try:
        return ctx.local_step("fail", target, number)
    except StepFailed as failed:
        return [failed.message, failed.attempts]


def test_a_local_step_waits_for_a_short_backoff_in_its_place():
    run = locally.start(3, 5, "2ms")

    assert run.result("20s") == 3
    assert api.checkpoints(run.id)[0].attempts == 3


def test_a_local_step_fails_for_good_after_its_last_attempt():
    run = locally.start(9, 2, "2ms")

    assert run.result("20s") == ["attempt 3", 3]
    assert CALLS["fail_until", run.id] == 3


def test_a_local_step_with_a_long_backoff_suspends_its_run():
    run = locally.start(2, 5, "1h")
    wait_until(lambda: run.status == "suspended", what="the run to suspend")
    checkpoint = api.checkpoints(run.id)[0]

    assert (checkpoint.status, checkpoint.attempts, checkpoint.kind) == ("pending", 1, "local")
    assert checkpoint.wake_at is not None

    make_due(run.id, 0)

    assert run.result("20s") == 2
    assert CALLS["fail_until", run.id] == 2


def fatal() -> None:
    CALLS["fatal", current_step().run_id] += 1
    raise FatalError("stolen", code="card_stolen")


class Hopeless(Exception):
    retryable = False
    code = "hopeless"


def hopeless() -> None:
    CALLS["hopeless", current_step().run_id] += 1
    raise Hopeless("no")


@step(name="retries.fatal", retries=5, backoff_base="1ms")
def fatal_step() -> None:
    fatal()


@step(name="retries.hopeless", retries=5, backoff_base="1ms")
def hopeless_step() -> None:
    hopeless()


@workflow(name="retries.giving_up")
def giving_up(ctx: Context) -> list[list[Any]]:
    seen = []
    local = (ref(each, retries=5, backoff_base="1ms") for each in (fatal, hopeless))
    operations = [
        lambda: ctx.step(fatal_step),
        lambda: ctx.step(hopeless_step),
        *(lambda each=each: ctx.local_step("local", each) for each in local),
    ]
    for operation in operations:
        try:
            operation()
        except StepFailed as failed:
            seen.append([failed.code, failed.attempts])
    return seen


def test_what_cannot_be_helped_is_not_tried_again():
    run = giving_up.start()

    assert run.result("20s") == [["card_stolen", 1], ["hopeless", 1], ["card_stolen", 1], ["hopeless", 1]]
    assert CALLS["fatal", run.id] == CALLS["hopeless", run.id] == 2


@step(name="retries.exit", retries=0)
def exits() -> None:
    raise SystemExit(3)


@workflow(name="retries.exiting")
def exiting(ctx: Context) -> list[str]:
    seen = []
    for operation in (lambda: ctx.step(exits), lambda: ctx.local_step("exit", exits)):
        try:
            operation()
        except StepFailed as failed:
            seen.append(failed.step)
    return seen


def test_a_step_that_exits_ends_no_worker():
    assert exiting.start().result("20s") == ["retries.exit", "exit"]
    assert remotely.start(1).result("20s") == 1


@step(
    name="retries.silent", timeout="150ms", retries=1, backoff="fixed", backoff_base="1ms", jitter=False, queue="nobody"
)
def silent() -> None:
    raise AssertionError("nobody serves this queue")


@workflow(name="retries.unheard")
def unheard(ctx: Context) -> list[Any]:
    try:
        ctx.step(silent.options(queue="retries.nobody"))
    except StepTimeout as timeout:
        return [timeout.code, timeout.attempts, timeout.step]
    return []


def test_a_step_that_nobody_takes_times_out():
    run = unheard.start()

    assert run.result("20s") == ["step_timeout", 2, "retries.silent"]
    assert api.checkpoints(run.id)[0].status == "failed"


@step(name="retries.slow", timeout="200ms", retries=0)
def slow(token: str) -> str:
    assert GATES[token].wait(20)
    return token


@workflow(name="retries.slowly")
def slowly(ctx: Context, token: str) -> str:
    return ctx.step(slow, token)


def test_a_live_step_is_never_failed_over(token):
    with gate(token) as opened:
        run = slowly.start(token)
        wait_until(lambda: api.checkpoints(run.id) and api.checkpoints(run.id)[0].started_at, what="the step to begin")
        begun = StepCheckpoint.objects.get(run__run_id=run.id, seq=0)
        # three windows of silence from the function itself: the worker beats for it
        wait_until(lambda: (_now() - begun.started_at).total_seconds() > 0.7, what="three windows")

        assert run.status == "running"

        opened.set()

        assert run.result("10s") == token


def _now() -> Any:
    from durable.engine.instance import get_engine

    return get_engine().dbclock.now()


@step(name="retries.telling", retries=1, backoff="fixed", backoff_base="1ms", jitter=False)
def telling() -> Any:
    me = current_step()
    me.logger.warning("line %d", me.attempt)
    me.record_event("sub", "ok", {"n": 1})
    if me.attempt == 1:
        me.heartbeat({"done": 7})
        raise ValueError("again")
    return [me.attempt, me.last_progress, me.cancelled, me.step_id == f"{me.run_id}:0"]


@workflow(name="retries.told")
def told(ctx: Context) -> Any:
    return ctx.step(telling)


def test_the_next_attempt_finds_the_progress_of_the_last(caplog):
    with caplog.at_level(logging.CRITICAL, "durable.step"):
        run = told.start()

        assert run.result("20s") == [2, {"done": 7}, False, True]

    checkpoint = api.checkpoints(run.id)[0]
    assert "line 2" in (checkpoint.events or "")
    assert '"sub"' in (checkpoint.events or "")
    assert checkpoint.progress == '{"done":7}'


@workflow(name="retries.long")
def long_local(ctx: Context, token: str) -> str:
    return ctx.local_step("wait", wait_at_gate, token)


def wait_at_gate(token: str) -> str:
    assert GATES[token].wait(20)
    return token


def test_a_local_step_that_takes_long_is_shown_while_it_runs(token):
    with gate(token) as opened:
        run = long_local.start(token)
        shown = wait_until(lambda: api.checkpoints(run.id), what="the step to be shown")

        assert (shown[0].status, shown[0].name, shown[0].attempts) == ("running", "wait", 1)

        opened.set()

        assert run.result("10s") == token
        assert api.checkpoints(run.id)[0].status == "completed"
