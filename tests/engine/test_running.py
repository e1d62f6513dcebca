"""Runs whose worker has settings of its own: what happens to them while they are executed."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.utils import timezone, translation

from durable import Context, StepFailed, api, current_step, step, workflow
from durable.authoring.registry import registry
from durable.conf import Config
from durable.core.clock import SystemClock
from durable.core.errors import RunDead, RunFailed, StepCancelled
from durable.engine.engine import Engine
from durable.engine.instance import get_engine
from durable.engine.persist import FIRST_WAIT_S
from durable.engine.ports import Ports
from durable.models import StepCheckpoint, TransportMessage, WorkflowRun
from durable.store.hints import make_hints
from durable.store.records import OutgoingMessage
from durable.store.store import Store
from durable.testing.failpoints import Failpoints, WatchedPort
from tests.engine.gates import GATES, gate
from tests.engine.workers import WorkerThread, make_engine
from tests.rig.patience import wait_until

CALLS: Counter[tuple[str, str]] = Counter()
STATE: dict[str, Any] = {}


def count(what: str) -> int:
    CALLS[what, current_step().run_id] += 1
    return CALLS[what, current_step().run_id]


def hold_until_cancelled(token: str) -> str:
    me = current_step()
    STATE[token] = "begun"
    while not me.cancelled:
        GATES[token].wait(0.01)
    STATE[token] = "cancelled"
    try:
        me.heartbeat()
    except StepCancelled:
        STATE[token] = "refused"
        raise
    return token


@step(name="running.hold")
def hold(token: str) -> str:
    return hold_until_cancelled(token)


@workflow(name="running.held")
def held(ctx: Context, token: str, local: bool) -> str:
    result = ctx.local_step("hold", hold, token) if local else ctx.step(hold, token)
    ctx.local_step("count", count, "after")
    return result


@pytest.mark.parametrize("local", [True, False], ids=["local step", "dispatched step"])
def test_running_code_sees_that_its_run_was_cancelled(token, local, start_worker):
    with gate(token):
        start_worker(LEASE="1s")
        run = held.start(token, local)
        wait_until(lambda: STATE.get(token) == "begun", what="the step to begin")
        run.cancel()

        assert run.status == "cancelled"

        wait_until(lambda: STATE.get(token) == "refused", what="the step to see it")
        wait_until(lambda: not TransportMessage.objects.exists(), what="the message to go")

    assert run.status == "cancelled"
    assert CALLS["after", run.id] == 0
    assert "completed" not in {each.status for each in api.checkpoints(run.id)}


@step(name="running.tenth", timeout="5s", retries=0)
def tenth() -> int:
    time.sleep(0.1)  # what is tested takes this long
    return 1


@workflow(name="running.timed")
def timed(ctx: Context) -> int:
    return ctx.step(tenth)


def test_a_turn_that_waits_gives_its_place_back(start_worker):
    start_worker(CONCURRENCY=1)
    runs = [timed.start() for _ in range(50)]

    assert [run.result("20s") for run in runs] == [1] * 50
    assert not StepCheckpoint.objects.filter(attempts__gt=1).exists()


@workflow(name="running.waiting")
def waiting(ctx: Context, token: str) -> list[Any]:
    return list(ctx.wait_for_signal(token))


@workflow(name="running.long")
def long_running(ctx: Context, token: str) -> str:
    return ctx.local_step("hold", wait_at_gate, token)


def wait_at_gate(token: str) -> str:
    STATE[token] = "begun"
    assert GATES[token].wait(30)
    return token


def test_an_open_transaction_of_a_caller_costs_no_run_its_lease(token, start_worker):
    lease_s = 1.0
    worker = start_worker(LEASE=lease_s)
    with gate(token) as opened:
        runs = [long_running.start(token) for _ in range(3)]
        wait_until(lambda: STATE.get(token) == "begun", what="the steps to begin")
        suspended, cancelled = waiting.start(f"{token}-signal"), waiting.start(f"{token}-cancel")
        wait_until(lambda: {suspended.status, cancelled.status} == {"suspended"}, what="the runs to suspend")
        epochs = dict(WorkflowRun.objects.values_list("run_id", "lease_epoch"))
        with transaction.atomic():
            suspended.signal(f"{token}-signal", 1)
            cancelled.cancel()
            runs[0].cancel()
            started = waiting.start(f"{token}-start")
            # on SQLite there is one lock for all writers, so nobody may hold it for longer than they are patient
            time.sleep(3 * lease_s if connection.vendor == "postgresql" else 0.3 * lease_s)
            held = {lease.run_id for lease in worker.worker.holdings.leases() if worker.worker.holdings.is_good(lease)}
        wait_until(lambda: {runs[0].status, cancelled.status} == {"cancelled"}, what="the cancels to be served")
        opened.set()

        assert {run.id for run in runs} <= held
        assert [run.result("20s") for run in runs[1:]] == [token] * 2
        assert {run.id: epochs[run.id] for run in runs[1:]} == dict(
            WorkflowRun.objects.filter(run_id__in=[run.id for run in runs[1:]]).values_list("run_id", "lease_epoch")
        )
        assert suspended.result("10s") == [f"{token}-signal", 1]
        started.cancel()
    assert worker.worker.holdings.late_renewals == 0


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["durable_workflow_runs", "durable_step_checkpoints"])
def test_a_row_that_stays_locked_costs_no_other_run_its_lease(token, table, start_worker):
    start_worker(LEASE="1s", HEARTBEAT_PERSIST_THROTTLE="100ms")
    with gate(token), gate(f"{token}-other"):
        # the run that is locked has something to store: a local step that is to be shown, or a beat
        run = long_running.start(token) if table == "durable_workflow_runs" else gated.start(token)
        other = long_running.start(f"{token}-other")
        wait_until(lambda: STATE.get(token) == STATE.get(f"{token}-other") == "begun", what="the steps to begin")
        before = WorkflowRun.objects.get(run_id=other.id)
        key = {"durable_workflow_runs": "id", "durable_step_checkpoints": "run_pk"}[table]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"SELECT 1 FROM {table} WHERE {key} = %s FOR UPDATE", [WorkflowRun.objects.get(run_id=run.id).id]
            )
            assert cursor.fetchall() == [(1,)]
            wait_until(
                lambda: (
                    WorkflowRun.objects.get(run_id=other.id).lease_expires_at
                    > before.lease_expires_at + timedelta(seconds=1)
                ),
                timeout=5,
                what="the other lease to be renewed for longer than it had lasted",
            )

        assert WorkflowRun.objects.get(run_id=other.id).lease_epoch == before.lease_epoch
        run.cancel()
        other.cancel()


@step(name="running.next")
def following(number: int) -> int:
    CALLS["following", current_step().run_id] += 1
    return number + 1


@workflow(name="running.many")
def many(ctx: Context, times: int) -> int:
    number = 0
    for _ in range(times):
        number = ctx.step(following, number)
    return number


@pytest.mark.timeout(120)
@pytest.mark.parametrize("park_limit", [500, 0], ids=["parked", "evicted"])
def test_a_body_that_suspends_many_times_gives_the_same_result(park_limit, start_worker):
    times = 500 if connection.vendor == "sqlite" else 150
    start_worker(options={"park_limit": park_limit})
    run = many.start(times)

    assert run.result("100s") == times
    assert CALLS["following", run.id] == times


@workflow(name="running.swallowing")
def swallowing(ctx: Context) -> str:
    try:
        ctx.sleep("1h")
    except:  # noqa: E722  # the mistake that is tested
        return "swallowed"
    return "slept"


@workflow(name="running.stubborn")
def stubborn(ctx: Context) -> str:
    while True:
        try:
            ctx.sleep("1h")
        except:  # noqa: E722  # the mistake that is tested
            continue
        return "slept"


@workflow(name="running.converting")
def converting(ctx: Context) -> None:
    try:
        ctx.sleep("1h")
    except BaseException as error:
        raise ValueError("something else") from error


@workflow(name="running.swallowing_async")
async def swallowing_async(ctx: Context) -> str:
    while True:
        try:
            await ctx.asleep("1h")
        except:  # noqa: E722  # the mistake that is tested
            continue
        return "slept"


@pytest.mark.parametrize(
    "body", [swallowing, stubborn, converting, swallowing_async], ids=lambda each: each.name.partition(".")[2]
)
def test_a_body_that_swallows_its_suspension_fails_with_that_reason(body, start_worker):
    start_worker(options={"park_limit": 0})
    run = body.start()
    with pytest.raises(RunFailed, match="bare 'except:'"):
        run.result("10s")

    assert run.failure is not None
    assert run.failure.code == "suspension_swallowed"


@workflow(name="running.catching")
def catching(ctx: Context, token: str) -> str:
    for _ in range(3):
        try:
            ctx.step(following, 1)
        except Exception as error:  # noqa: BLE001  # must see no suspension
            return f"caught {error!r}"
        finally:
            CALLS["finally", token] += 1
    return "nothing caught"


def test_except_exception_never_sees_a_suspension(token, start_worker):
    start_worker(options={"park_limit": 0})

    assert catching.start(token).result("10s") == "nothing caught"
    assert CALLS["finally", token] >= 3


def messy(token: str) -> None:
    print("a line")  # noqa: T201  # steps may print
    timezone.activate("Asia/Kolkata")
    translation.activate("de")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    transaction.set_autocommit(False)
    Group.objects.create(name=token)


def closing() -> None:
    connections.close_all()


def breaking(token: str) -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name=token)
    raise ValueError("with a transaction open")


def look_around() -> list[Any]:
    return [
        timezone.get_current_timezone_name(),
        translation.get_language(),
        connection.get_autocommit(),
        connection.in_atomic_block,
    ]


mess = step(name="running.mess", retries=0)(messy)
break_off = step(name="running.break_off", retries=0)(breaking)
close_all = step(name="running.close_all", retries=0)(closing)
look = step(name="running.look", retries=0)(look_around)


@workflow(name="running.messing")
def messing(ctx: Context, token: str) -> list[Any]:
    seen = []
    ctx.local_step("mess", mess, f"{token}-1")
    seen.append(ctx.local_step("look", look))
    ctx.step(mess, f"{token}-2")
    seen.append(ctx.step(look))
    for operation in (
        lambda: ctx.local_step("break", break_off, f"{token}-3"),
        lambda: ctx.step(break_off, f"{token}-4"),
    ):
        with suppress(StepFailed):
            operation()
    ctx.local_step("close", close_all)
    seen.append(ctx.local_step("look", look))
    ctx.step(close_all)
    seen.append(ctx.step(look))
    now = ctx.now()
    return [seen, now.isoformat()]


@pytest.fixture
def restored_place(monkeypatch, tmp_path):
    monkeypatch.setenv("TZ", "UTC")
    before = Path.cwd()
    yield
    os.chdir(before)
    monkeypatch.undo()
    time.tzset()


def test_whatever_steps_do_to_their_thread_the_engine_goes_on(token, start_worker, restored_place, caplog):
    start_worker(CONCURRENCY=1, STEP_CONCURRENCY=1)
    seen, now = messing.start(token).result("20s")

    assert seen == [["UTC", "en", True, False]] * 4
    assert abs(datetime.fromisoformat(now) - datetime.now(UTC)).total_seconds() < 60
    assert not Group.objects.filter(name__startswith=token).exists()
    assert sum("left a transaction open" in each.message for each in caplog.records) == 4


@workflow(name="running.working_directory")
def working_directory(ctx: Context, path: str) -> str:
    ctx.local_step("move", os.chdir, path)
    ctx.sleep("1ms")
    return ctx.local_step("where", os.getcwd)


def make_group(name: str) -> int:
    return Group.objects.create(name=name).pk


make_group_step = step(name="running.make_group", retries=0)(make_group)


@workflow(name="running.writing")
def writing(ctx: Context, name: str) -> bool:
    made = [
        ctx.local_step("local", make_group_step, f"{name}-1"),
        ctx.transaction("transaction", make_group_step, f"{name}-2"),
        ctx.step(make_group_step, f"{name}-3"),
    ]
    return len(set(made)) == 3


@pytest.mark.postgres
@pytest.mark.parametrize("including_own", [False, True], ids=["worker", "caller"])
def test_connections_that_were_killed_are_made_again(token, including_own, start_worker):
    start_worker(CONCURRENCY=1, STEP_CONCURRENCY=1, POLL=("20ms", "100ms"))
    api.signal(token)
    assert waiting.start(token).result("10s") == [token, None]
    assert many.start(1).result("10s") == 1
    kill_others(including_own=including_own)

    assert waiting.start_as(token, token).cancel() is None
    assert writing.start(token).result("20s") is True
    assert many.start(2).result("20s") == 2
    assert timed.start().result("20s") == 1


def kill_others(*, including_own: bool) -> None:
    name = connection.settings_dict["NAME"]
    import psycopg

    facts = connection.get_connection_params()
    with psycopg.connect(**{key: facts[key] for key in ("host", "port", "user", "dbname") if key in facts}) as raw:
        own = connection.connection.info.backend_pid if connection.connection else 0
        raw.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid() AND (%s OR pid <> %s)",
            [name, including_own, own],
        )


def test_a_message_that_nobody_can_read_stops_no_worker(token, start_worker):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO durable_transport_messages (queue, kind, body, namespace, priority, visible_at_us, takes,"
            " created_at_us) VALUES ('tasks:running.next', 'task', 'no JSON', 'default', 0, 0, 0, 0)"
        )
    start_worker()

    assert many.start(2).result("10s") == 2
    TransportMessage.objects.all().delete()


def test_messages_that_nobody_can_read_are_handed_back(token, start_worker, caplog):
    engine = get_engine()
    engine.store.send_messages(
        [
            OutgoingMessage(queue="tasks:running.next", kind="task", body="no JSON"),
            OutgoingMessage(queue="runs", kind="unknown", body=token),
        ]
    )
    messages = TransportMessage.objects.filter(visible_at__lt=engine.dbclock.now())
    run = many.start(2)
    worker = start_worker().worker

    assert run.result("10s") == 2
    wait_until(lambda: not messages.exists(), what="the messages to be handed back")
    wait_until(lambda: not worker.holdings.messages(), what="their holds to be forgotten")
    assert set(TransportMessage.objects.values_list("kind", "held_by", "takes")) == {
        ("task", None, 0),
        ("unknown", None, 0),
    }
    assert any("handed back" in each.message for each in caplog.records)
    TransportMessage.objects.all().delete()


def test_a_checkpoint_that_nobody_can_read_stops_no_worker(token, start_worker, caplog):
    with WorkerThread(make_engine()):
        odd, sound = (waiting.start(f"{token}-{number}") for number in range(2))
        wait_until(lambda: {odd.status, sound.status} == {"suspended"}, what="the runs to wait")
    StepCheckpoint.objects.filter(run__run_id=odd.id).update(kind="unknown")
    with transaction.atomic():
        odd.signal(f"{token}-0")
        sound.signal(f"{token}-1")
    worker = start_worker().worker

    assert sound.result("10s") == [f"{token}-1", None]
    wait_until(lambda: odd.status == "running" and not worker.holdings.leases(), what="the other to be let go")
    assert many.start(1).result("10s") == 1
    assert [each.run_id for each in caplog.records if "error of the engine" in each.message] == [odd.id]
    odd.cancel()


def test_everything_is_stored_in_the_database_that_is_named(token, start_worker, settings):
    settings.DURABLE = {"DATABASE": "other"}
    start_worker(alias="other")
    run = many.start(3)
    api.signal(token, 1)
    second = waiting.start(token)

    assert run.result("10s") == 3
    assert second.result("10s") == [token, 1]
    assert WorkflowRun.objects.using("other").filter(run_id__in=[run.id, second.id]).count() == 2
    assert not WorkflowRun.objects.filter(run_id__in=[run.id, second.id]).exists()
    assert [each.kind for each in api.checkpoints(run.id)] == ["remote"] * 3
    assert api.list_runs(workflow="running.many", limit=1)[0].run_id == run.id


def test_one_call_may_name_another_database(token, start_worker):
    start_worker(alias="other")
    run = many.options(using="other").start(2)

    assert run.result("10s") == 2
    assert api.get_run(run.id, using="other").status == "completed"


def test_a_worker_leaves_no_thread_and_no_connection(start_worker):
    before = threading.active_count()
    with WorkerThread(make_engine()) as worker:
        many.start(2).result("10s")

    assert worker.drained
    wait_until(lambda: threading.active_count() <= before, what="all threads to end")


def test_a_run_that_ended_is_forgotten(token, start_worker):
    bodies = start_worker().worker.bodies
    run = waiting.start(token)
    pk = WorkflowRun.objects.get(run_id=run.id).id
    wait_until(lambda: bodies.is_parked(pk), what="the body to be parked")
    api.signal(token)
    run.result("10s")
    wait_until(bodies.is_idle, what="the turn to end")

    assert not bodies.is_parked(pk)
    assert bodies.known() == []


def test_a_drained_worker_leaves_its_runs_to_others(token, start_worker):
    with gate(token) as opened, WorkerThread(make_engine()) as first:
        held_step = gated.start(token)
        wait_until(lambda: STATE.get(token) == "begun", what="the step to begin")
        first.worker.stop()
        opened.set()
    with WorkerThread(make_engine()):
        assert held_step.result("10s") == token


@step(name="running.gated", timeout="20s")
def gated_step(token: str) -> str:
    return wait_at_gate(token)


@workflow(name="running.gated")
def gated(ctx: Context, token: str) -> str:
    return ctx.step(gated_step, token)


@workflow(name="running.gated_later")
def gated_later(ctx: Context, token: str) -> str:
    ctx.local_step("wait", wait_at_gate, f"{token}-first")
    return ctx.step(gated_step, token)


def test_a_turn_that_comes_to_wait_during_a_drain_is_given_back(token):
    STATE[token] = None
    with gate(f"{token}-first") as opened, WorkerThread(make_engine(), step_concurrency=0) as first:
        run = gated_later.start(token)
        wait_until(lambda: STATE.get(f"{token}-first") == "begun", what="the local step to begin")
        bodies = first.worker.bodies
        assert bodies is not None
        first.worker.stop()
        wait_until(lambda: bodies.room() == 0, what="the drain to begin")
        opened.set()

    assert first.drained
    assert run.status == "suspended"

    with gate(token) as opened, WorkerThread(make_engine()):
        opened.set()

        assert run.result("10s") == token
    assert WorkflowRun.objects.get(run_id=run.id).recovery_attempts == 0


def test_a_run_whose_worker_died_is_recovered(token, start_worker):
    run = waiting.start(token)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE durable_workflow_runs SET status = 'running', lease_owner = 'gone', lease_epoch = 7,"
            " lease_expires_at_us = 1, wake_at_us = NULL WHERE run_id = %s",
            [run.id],
        )
    api.signal(token)
    start_worker()

    assert run.result("10s") == [token, None]
    record = WorkflowRun.objects.get(run_id=run.id)
    assert (record.recovery_attempts, record.lease_epoch) == (1, 9)


def test_a_run_that_always_kills_its_worker_is_dead_in_the_end(token, start_worker):
    run = waiting.start(token)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE durable_workflow_runs SET status = 'running', lease_owner = 'gone', recovery_attempts = 10,"
            " lease_expires_at_us = 1, wake_at_us = NULL WHERE run_id = %s",
            [run.id],
        )
    start_worker()
    with pytest.raises(RunDead):
        run.result("10s")
    assert run.failure is not None
    assert run.failure.code == "recovery_gave_up"


def slow(number: int) -> int:
    time.sleep(0.05)  # longer together than a hint makes the loop look often
    return number


slow_step = step(name="running.slow")(slow)


@workflow(name="running.fan")
def fan(ctx: Context, many: int) -> int:
    return sum(ctx.gather(*(slow_step.call(number) for number in range(many))))


def test_threads_that_are_all_busy_are_given_the_next_steps_as_they_become_free(start_worker):
    start_worker(STEP_CONCURRENCY=2, POLL=("20s", "20s"))

    assert fan.start(12).result("10s") == sum(range(12))


class NotingClock(SystemClock):
    """A clock that notes how long it is slept on."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        super().sleep(seconds)


@workflow(name="running.transacting")
def transacting(ctx: Context, name: str) -> int:
    return ctx.transaction("make", make_group_step, name)


def test_a_transaction_that_meets_trouble_is_repeated_with_pauses(token):
    plan = {f"store.record_with#{number}:before": "raise:TransientTrouble" for number in (1, 2, 3)}
    ports = Ports.for_alias("default")
    store: Any = WatchedPort("store", ports.store, Failpoints(plan), frozenset(Store.verbs()))
    clock = NotingClock()
    engine = Engine(
        "default", Config(), replace(ports, store=store, clock=clock), make_hints("default", clock), registry
    )
    with WorkerThread(engine):
        run = transacting.start(token)

        assert run.result("10s") == Group.objects.get(name=token).pk
    assert [each for each in clock.slept_s if each >= FIRST_WAIT_S][:3] == [
        FIRST_WAIT_S,
        2 * FIRST_WAIT_S,
        4 * FIRST_WAIT_S,
    ]
    Group.objects.all().delete()


def test_nothing_is_left_behind():
    assert get_engine().store.find_orphans() == []
