"""What callers do: inside their transactions, with bad input, from async code."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction

from durable import Context, api, step, workflow
from durable.authoring.registry import registry
from durable.core.errors import (
    DurableError,
    InvalidName,
    InvalidRunId,
    OperationRefused,
    PayloadError,
    RunNotFound,
    StepNotRegistered,
    VersionNotRegistered,
    WorkflowNotRegistered,
    WrongState,
)
from durable.models import BufferedSignal, TransportMessage, WorkflowRun
from tests.rig.patience import wait_until

pytestmark = pytest.mark.usefixtures("worker")
CALLS: Counter[str] = Counter()


@workflow(name="callers.single")
def single(ctx: Context, number: int) -> int:
    return number


@workflow(name="callers.waiting")
def waiting(ctx: Context, token: str) -> Any:
    return ctx.wait_for_signal(token)[1]


def has_status(run: Any, status: str) -> bool:
    return bool(run.status == status)


class Rollback(Exception):
    pass


def everything() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (WorkflowRun, BufferedSignal, TransportMessage))


def test_a_transaction_that_rolls_back_leaves_nothing(token):
    run = waiting.start(token)
    wait_until(
        lambda: run.status == "suspended" and not TransportMessage.objects.filter(queue="runs").exists(), what="quiet"
    )
    before = everything()
    with suppress(Rollback), transaction.atomic():
        Group.objects.create(name=token)
        single.start(1)
        api.signal(token, 1)
        run.cancel()
        raise Rollback

    assert everything() == before
    assert run.status == "suspended"
    run.cancel()


def test_a_transaction_that_commits_starts_and_signals(token):
    with transaction.atomic():
        Group.objects.create(name=token)
        run = waiting.start(token)
        api.signal(token, 7)
        second = single.start(2)

        assert run.status == "pending"

    assert run.result("10s") == 7
    assert second.result("10s") == 2


def test_a_savepoint_that_rolls_back_takes_its_runs_with_it(token):
    with transaction.atomic():
        kept = single.start_as(f"kept-{token}", 1)
        with suppress(Rollback), transaction.atomic():
            single.start_as(f"gone-{token}", 1)
            raise Rollback

    assert kept.result("10s") == 1
    with pytest.raises(RunNotFound):
        api.get_run(f"gone-{token}")


def test_the_transaction_of_a_caller_survives_an_id_that_exists(token):
    single.start_as(token, 1).result("10s")
    with transaction.atomic():
        again = single.start_as(token, 1)
        Group.objects.create(name=token)

    assert again.result("10s") == 1
    assert Group.objects.filter(name=token).exists()


def test_a_cancel_in_a_transaction_follows_its_commit(token):
    run = waiting.start(token)
    wait_until(lambda: run.status == "suspended", what="the run to wait")
    with transaction.atomic():
        run.cancel()

        assert run.status == "suspended"

    wait_until(lambda: run.status == "cancelled", what="the cancel to be served")
    wait_until(lambda: not TransportMessage.objects.filter(kind="cancel").exists(), what="the request to go")


@pytest.mark.postgres
@pytest.mark.parametrize("park_limit", [500], ids=["parked"], indirect=True)
@pytest.mark.usefixtures("park_limit")
def test_a_commit_is_seen_at_once(token):
    waits_ms: list[float] = []
    for number in range(8):
        # an idle worker has stopped looking often
        time.sleep(0.15)
        with transaction.atomic():
            run = single.start(number)
        committed = time.monotonic()
        wait_until(partial(has_status, run, "completed"), interval=0.001, what="the run to complete")
        waits_ms.append((time.monotonic() - committed) * 1000)
        signalled = waiting.start(f"{token}-{number}")
        wait_until(partial(has_status, signalled, "suspended"), what="the run to wait")
        time.sleep(0.15)
        with transaction.atomic():
            signalled.signal(f"{token}-{number}", 1)
        committed = time.monotonic()
        wait_until(partial(has_status, signalled, "completed"), interval=0.001, what="the run to complete")
        waits_ms.append((time.monotonic() - committed) * 1000)

    assert statistics.median(waits_ms) < 50, waits_ms


def test_waiting_inside_a_transaction_is_refused():
    with transaction.atomic():
        run = single.start(1)
        for call in (run.result, lambda: api.wait(run.id)):
            with pytest.raises(OperationRefused, match="transaction"):
                call()
    assert run.result("10s") == 1


@pytest.mark.parametrize(
    ("run_id", "problem"),
    [
        ("", "1 to 255"),
        ("x" * 256, "1 to 255"),
        ("a\nb", "control"),
        ("a\x00b", "control"),
        ("\x7f", "control"),
        ("\ud800", "surrogate"),
        (7, "Run id"),
    ],
)
def test_run_ids_that_cannot_be_stored_are_refused(run_id, problem):
    before = everything()
    with pytest.raises(InvalidRunId, match=problem) as caught:
        single.start_as(run_id, 1)

    assert caught.value.run_id == run_id
    assert everything() == before


@pytest.mark.parametrize("run_id", ["x" * 255, "ж" * 255, "🎉" * 255, "a b", "a/b:c%d'\"", "naïve\u2028"])
def test_run_ids_of_any_script_are_taken(run_id):
    run = single.start_as(run_id, 1)

    assert run.id == run_id
    assert run.result("10s") == 1


@pytest.mark.parametrize("token", ["", "x" * 256, "a\nb", "\x00", "\udc00", 7])
def test_tokens_that_cannot_be_stored_are_refused(token):
    before = everything()
    with pytest.raises(InvalidName, match="token"):
        api.signal(token, 1)

    assert everything() == before


def test_unknown_workflows_and_versions_are_refused_before_anything_is_written():
    before = everything()
    with pytest.raises(WorkflowNotRegistered, match=r"Did you mean 'callers\.single'") as unknown:
        api.start("callers.singel", 1)
    with pytest.raises(VersionNotRegistered) as version:
        api.start("callers.single", 1, version="9")
    with pytest.raises(VersionNotRegistered):
        single.options(version="9").start(1)
    with pytest.raises(PayloadError):
        single.start("one")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        single.start(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        api.start("callers.pair", 3)

    assert unknown.value.name == "callers.singel"
    assert (version.value.name, version.value.version, version.value.known) == ("callers.single", "9", ("1",))
    assert all(issubclass(each, DurableError) for each in (WorkflowNotRegistered, VersionNotRegistered, PayloadError))
    assert everything() == before


@workflow(name="callers.pair")
def pair(ctx: Context, left: int, right: int) -> int:
    return left + right


def test_wrong_states_say_what_to_do():
    run = single.start(1)
    run.result("10s")
    with pytest.raises(WrongState, match="It has ended; nothing was changed") as cancelled:
        run.cancel()
    with pytest.raises(WrongState, match="start a new run instead") as retried:
        run.retry()

    assert (cancelled.value.action, cancelled.value.status) == ("cancel", "completed")
    assert (retried.value.action, retried.value.status) == ("retry", "completed")


def add(number: int) -> int:
    return number + 1


@workflow(name="callers.misusing")
def misusing(ctx: Context, token: str) -> list[str]:
    """Call operations where they make no sense; nothing of it may be recorded."""
    import threading

    errors: list[str] = []

    def attempt(operation: Any) -> None:
        try:
            operation()
        except Exception as error:  # noqa: BLE001  # what it is, is what the test looks at
            errors.append(f"{type(error).__name__}: {error}")

    def in_atomic() -> None:
        with transaction.atomic():
            ctx.local_step("add", add, 1)

    def in_thread() -> None:
        thread = threading.Thread(target=lambda: attempt(lambda: ctx.sleep("1s")))
        thread.start()
        thread.join()

    def in_step() -> None:
        ctx.local_step("outer", lambda: ctx.local_step("inner", add, 1))

    attempt(in_atomic)
    in_thread()
    attempt(lambda: ctx.step(single, 1))
    attempt(ctx.wait_for_signal)
    attempt(lambda: ctx.wait_for_signal("a\nb"))
    attempt(lambda: ctx.sleep("soon"))
    attempt(lambda: ctx.sleep("999999999d"))
    attempt(lambda: ctx.wait_for_signal("never", timeout="999999999d"))
    attempt(lambda: ctx.gather(good_step.call(1), good_step.call(object())))
    attempt(lambda: single.start(1))
    attempt(in_step)
    errors.append(str(ctx.step(good_step, 5)))
    return errors


@step(name="callers.good", retries=0)
def good_step(value: Any) -> Any:
    return value


def test_misuse_in_a_body_is_refused_and_takes_no_position(token):
    run = misusing.start(token)
    errors = run.result("10s")

    kinds = [error.partition(":")[0] for error in errors]
    assert kinds == [
        "OperationRefused",
        "OperationRefused",
        "OperationRefused",
        "OperationRefused",
        "InvalidName",
        "InvalidDuration",
        "InvalidDuration",
        "InvalidDuration",
        "PayloadError",
        "OperationRefused",
        "StepFailed",
        "5",
    ]
    assert "transaction is open" in errors[0]
    assert "thread" in errors[1]
    assert "every replay" in errors[9]
    assert [(each.seq, each.name) for each in api.checkpoints(run.id)] == [(0, "outer"), (1, "callers.good")]


def test_missing_tables_are_named(settings):
    from django.core.management import CommandError, call_command

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE durable_signal_waiters RENAME TO away")
    try:
        with pytest.raises(CommandError, match=r"manage\.py migrate durable"):
            call_command("durable_work", "--once", verbosity=0)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO durable_signal_waiters")


def test_the_facade_has_async_twins(token):
    async def talk() -> list[Any]:
        run = await api.astart(waiting, token)
        await api.asignal(token, 3)
        result = await run.aresult("10s")
        status = await run.astatus()
        other = await waiting.astart(f"{token}-2")
        await api.acancel(other.id)
        found = await api.aget_run(other.id)
        listed = await api.alist_runs(workflow="callers.waiting", limit=2)
        points = await api.acheckpoints(run.id)
        await api.aretry(other.id)
        await other.asignal(f"{token}-2", 4)
        record = await api.await_run(other.id, "10s")
        await sync_to_async(connections.close_all)()  # as the end of a request does
        return [result, status, found.id == other.id, len(listed), len(points), record.status]

    assert asyncio.run(talk()) == [3, "completed", True, 2, 1, "completed"]


def test_an_unknown_step_waits_for_a_worker_that_has_it(token):
    run = by_name.start()
    wait_until(lambda: run.status == "suspended", what="the run to wait")

    assert run.status == "suspended"
    run.cancel()
    with pytest.raises(StepNotRegistered):
        registry.step("callers.nobody")


@workflow(name="callers.by_name")
def by_name(ctx: Context) -> Any:
    return ctx.step_by_name("callers.nobody", {"a": 1})
