"""The answer to COMMIT is lost and the verb is called again: the state is that of one execution, for every verb.

On PostgreSQL a proxy before the server swallows the answer; on SQLite, where nothing can be in between, the seam raises
after the real commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import connections

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.store.django_session import open_session
from durable.store.errors import ConnectionTrouble
from durable.store.records import (
    CheckpointWrite,
    ClaimedRun,
    Interest,
    Lease,
    NewRun,
    NewSignal,
    OutgoingMessage,
    Settlement,
    TurnEnd,
)
from durable.store.store import Store
from durable.testing.failpoints import Call, Failpoints
from tests.app.models import Entry
from tests.rig.lossy import PORT, LossyProxy, connector

pytestmark = pytest.mark.django_db(transaction=True)

OWNER = "me"
QUEUES = ("runs", "tasks:t")
INTEREST = Interest(workflows=(("w", "1"),), queues=QUEUES)
LEASE_US = 60_000_000
ALREADY_OVER_US = -1
LONG_AFTER_US = 2 * LEASE_US
"""The length of a lease for which one of ``LEASE_US`` counts as not renewed for a third of it."""
MOST_ANSWERS = 12
TABLES = {
    "durable_workflow_runs": ("id", ()),
    "durable_step_checkpoints": ("run_pk, seq", ("run_pk",)),
    "durable_signal_waiters": ("run_pk, seq, token", ("id", "run_pk")),
    "durable_buffered_signals": ("id", ("id", "consumed_run_pk")),
    "durable_transport_messages": ("id", ("id", "run_pk")),
    "tests_app_entry": ("id", ("id",)),
}
"""The order of each table's rows, and its columns that hold surrogate keys."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A state of the store, and a call of a verb on it.

    Attributes:
        prepare: Makes the state; what it returns goes to ``call``.
        call: Calls the verb.
        gives_back: Finds, by the surrogate keys, what a grant whose answer was lost has granted.
        may_stamp: The repetition may ask for one look more.
    """

    prepare: Callable[[Store], Any]
    call: Callable[[Store, Any], Any]
    gives_back: Callable[[Store, Any], list[Any]] | None = None
    may_stamp: bool = False


@dataclass
class Losses:
    """Loses answers of a store."""

    store: Store
    lose: Callable[[int], None]
    count: Callable[[], int]


def new_run(run_id: str = "run", **facts: Any) -> NewRun:
    return NewRun(run_id=run_id, workflow="w", version="1", input="1", input_shape="single", **facts)


def claimed(store: Store, *, lease_us: int = LEASE_US, **facts: Any) -> Lease:
    """Return the lease of a run that was just claimed."""
    store.start_runs([new_run(**facts)])
    return claim(store, lease_us=lease_us)[0].lease


def claim(store: Store, *, lease_us: int = LEASE_US) -> list[ClaimedRun]:
    return store.claim_runs(OWNER, INTEREST, lease_us=lease_us, limit=1)


def take(store: Store, *, lease_us: int = LEASE_US) -> list[int]:
    found = store.take_messages(OWNER, QUEUES, namespace=None, lease_us=lease_us, limit=8)
    return [message.id for message in found]


def checkpoint(lease: Lease, seq: int = 0, **facts: Any) -> CheckpointWrite:
    given = {"kind": CheckpointKind.LOCAL, "status": CheckpointStatus.COMPLETED, "output": "1", **facts}
    return CheckpointWrite(run_pk=lease.run_pk, seq=seq, name=f"step {seq}", **given)


def pending_step(lease: Lease, seq: int = 0) -> CheckpointWrite:
    facts = {"kind": CheckpointKind.REMOTE, "status": CheckpointStatus.PENDING, "output": None}
    return checkpoint(lease, seq, attempts=1, policy="{}", enqueued_at_us=1, **facts)


def task(lease: Lease, seq: int = 0) -> OutgoingMessage:
    key = f"{lease.run_pk}:{seq}:1"
    return OutgoingMessage(queue="tasks:t", kind="task", body="{}", run_pk=lease.run_pk, seq=seq, dedupe_key=key)


def suspension(lease: Lease, **facts: Any) -> TurnEnd:
    return TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=2**52, waiting_on="something", **facts)


def waiting_for_step(store: Store) -> Lease:
    """Leave a run suspended on a dispatched step."""
    lease = claimed(store)
    assert store.end_turns([suspension(lease, checkpoints=(pending_step(lease),), messages=(task(lease),))]) == [True]
    return lease


def executing_step(store: Store) -> tuple[Lease, int]:
    """Leave a run suspended on a dispatched step that was taken."""
    lease = waiting_for_step(store)
    return lease, take(store)[0]


def settlement(message_id: int, **facts: Any) -> Settlement:
    given = {"status": CheckpointStatus.COMPLETED, "output": "2", **facts}
    return Settlement(run_id="run", seq=0, attempt=1, message_id=message_id, **given)


def settle(store: Store, message_id: int, **facts: Any) -> Any:
    return store.settle_steps(OWNER, [settlement(message_id, **facts)], lease_us=LEASE_US)


def waiting_for_signal(store: Store) -> list[tuple[int, str]]:
    """Leave a run that waits for a signal which has come; return its wakes, taken."""
    lease = claimed(store)
    wait = checkpoint(lease, kind=CheckpointKind.SIGNAL, status=CheckpointStatus.PENDING, output=None)
    end = suspension(lease, checkpoints=(wait,), waiters=((0, "token"),))
    assert store.take_signal(lease, ("token",), wait, end).suspended
    store.send_signal(NewSignal(token="token", key="key", payload="1"))
    return [(message_id, "token") for message_id in take(store)]


def stamped(store: Store) -> Lease:
    """Return the lease of a run that a wake has met."""
    lease, message_id = executing_step(store)
    store.settle_steps(OWNER, [settlement(message_id, claim=True)], lease_us=LEASE_US)
    settle(store, message_id)
    return replace(lease, epoch=2)


def await_signal(store: Store, lease: Lease, otherwise: TurnEnd | CheckpointWrite | None = None) -> Any:
    wait = checkpoint(lease, kind=CheckpointKind.SIGNAL, status=CheckpointStatus.PENDING, output=None)
    end = suspension(lease, checkpoints=(wait,), waiters=((0, "token"),))
    return store.take_signal(lease, ("token",), wait, otherwise or end)


def with_signal(store: Store) -> Lease:
    for number in range(2):
        store.send_signal(NewSignal(token="token", key=f"key {number}", payload=str(number)))
    return claimed(store)


def failed_run(store: Store) -> None:
    lease = claimed(store)
    failed = checkpoint(lease, 1, status=CheckpointStatus.FAILED, output=None, error="{}")
    store.end_turns(
        [TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}", checkpoints=(checkpoint(lease, 0), failed))]
    )


def write_entry(store: Store, lease: Lease) -> Any:
    def work() -> CheckpointWrite:
        Entry.objects.create(key="once")
        return checkpoint(lease)

    return store.record_with(lease, work)


def sent(store: Store) -> int:
    message = OutgoingMessage(queue="runs", kind="cancel", body="run", dedupe_key="one")
    return store.send_messages([message, replace(message, dedupe_key="two")])


def adopted_runs(store: Store, known: Any) -> list[Any]:
    return [each.lease.run_id for each in store.adopt_runs(OWNER, [], lease_us=LONG_AFTER_US)]


def adopted_messages(store: Store, known: Any) -> list[Any]:
    return [each.body for each in store.adopt_messages(OWNER, [], lease_us=LONG_AFTER_US)]


SCENARIOS: dict[str, dict[str, Scenario]] = {
    "start_runs": {
        "two": Scenario(
            prepare=lambda store: None,
            call=lambda store, _: [each.run_id for each in store.start_runs([new_run("a"), new_run("b")])],
        )
    },
    "claim_runs": {
        "one": Scenario(
            prepare=lambda store: store.start_runs([new_run()]),
            call=lambda store, _: claim(store),
            gives_back=adopted_runs,
        )
    },
    "cancel_run": {
        "waiting": Scenario(
            prepare=waiting_for_signal, call=lambda store, _: store.cancel_run("run", '{"code": "cancelled"}')
        )
    },
    "retry_run": {
        "failed": Scenario(prepare=failed_run, call=lambda store, _: store.retry_run("run", generation=0, failed_seq=1))
    },
    "recover_runs": {
        "back in the queue": Scenario(
            prepare=lambda store: claimed(store, lease_us=ALREADY_OVER_US),
            call=lambda store, _: store.recover_runs(max_attempts=10, limit=10, error="{}"),
        ),
        "dead": Scenario(
            prepare=lambda store: claimed(store, lease_us=ALREADY_OVER_US),
            call=lambda store, _: store.recover_runs(max_attempts=0, limit=10, error="{}"),
        ),
    },
    "expire_runs": {
        "one": Scenario(
            prepare=lambda store: store.start_runs([new_run(execution_timeout_us=-1)]),
            call=lambda store, _: store.expire_runs(limit=10, error="{}"),
        )
    },
    "fail_suspended": {
        "one": Scenario(
            prepare=waiting_for_step,
            call=lambda store, lease: store.fail_suspended(lease.run_pk, generation=0, error="{}"),
        )
    },
    "send_signal": {
        "one": Scenario(
            prepare=lambda store: None,
            call=lambda store, _: store.send_signal(NewSignal(token="token", key="key", payload="1")),
        )
    },
    "serve_wakes": {
        "one": Scenario(prepare=waiting_for_signal, call=lambda store, wakes: store.serve_wakes(OWNER, wakes))
    },
    "take_signal": {
        "there": Scenario(prepare=with_signal, call=await_signal),
        "not there": Scenario(prepare=claimed, call=await_signal),
        "too late": Scenario(
            prepare=claimed,
            call=lambda store, lease: await_signal(
                store, lease, checkpoint(lease, kind=CheckpointKind.SIGNAL, status=CheckpointStatus.FAILED)
            ),
        ),
    },
    "record": {
        "one": Scenario(prepare=claimed, call=lambda store, lease: store.record(lease, [checkpoint(lease)])),
        "several": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.record(
                lease, [checkpoint(lease), pending_step(lease, 1)], [task(lease, 1)]
            ),
        ),
    },
    "record_with": {"one": Scenario(prepare=claimed, call=write_entry)},
    "note_running": {
        "one": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.note_running(
                lease, checkpoint(lease, status=CheckpointStatus.RUNNING, output=None)
            ),
        )
    },
    "hold_turn": {
        "one": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.hold_turn(
                lease, [pending_step(lease)], [task(lease)], waiting_on="a step with a time limit"
            ),
        )
    },
    "begin_turn": {"stamped": Scenario(prepare=stamped, call=lambda store, lease: store.begin_turn(lease))},
    "end_turns": {
        "suspended": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.end_turns(
                [suspension(lease, checkpoints=(pending_step(lease),), messages=(task(lease),))]
            ),
        ),
        "completed": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.end_turns(
                [TurnEnd(lease=lease, status=RunStatus.COMPLETED, output="3", checkpoints=(checkpoint(lease),))]
            ),
        ),
    },
    "settle_steps": {
        "made due": Scenario(prepare=executing_step, call=lambda store, given: settle(store, given[1])),
        "to be tried again": Scenario(
            prepare=executing_step,
            call=lambda store, given: settle(
                store, given[1], status=CheckpointStatus.PENDING, output=None, error="{}", retry_at_us=2**51
            ),
        ),
        "claimed": Scenario(
            prepare=executing_step,
            call=lambda store, given: settle(store, given[1], claim=True),
            gives_back=lambda store, given: [settle(store, given[1], claim=True)[0].claimed.lease.run_id],
            may_stamp=True,
        ),
    },
    "record_beat": {
        "one": Scenario(
            prepare=waiting_for_step,
            call=lambda store, _: store.record_beat(OWNER, "run", 0, progress="1"),
        )
    },
    "send_messages": {"two": Scenario(prepare=lambda store: None, call=lambda store, _: sent(store))},
    "take_messages": {"two": Scenario(prepare=sent, call=lambda store, _: take(store), gives_back=adopted_messages)},
    "hold_messages": {
        "one": Scenario(
            prepare=executing_step,
            call=lambda store, given: store.hold_messages(OWNER, [given[1]], lease_us=LEASE_US),
        )
    },
    "release_expired_holds": {
        "two": Scenario(
            prepare=lambda store: (sent(store), take(store, lease_us=ALREADY_OVER_US)),
            call=lambda store, _: store.release_expired_holds(limit=10),
        )
    },
    "give_back_messages": {
        "one": Scenario(
            prepare=executing_step,
            call=lambda store, given: store.give_back_messages(OWNER, [given[1]], delay_us=LEASE_US),
        )
    },
    "delete_messages": {
        "one": Scenario(prepare=executing_step, call=lambda store, given: store.delete_messages(OWNER, [given[1]]))
    },
    "renew_leases": {
        "one": Scenario(
            prepare=claimed,
            call=lambda store, lease: store.renew_leases(OWNER, [lease.run_pk], lease_us=LEASE_US),
        )
    },
}
ALL = [(verb, name) for verb in Store.mutating_verbs() for name in SCENARIOS.get(verb, {"missing": None})]


@pytest.fixture
def losses(transactional_db: None) -> Iterator[Losses]:
    """Return a store whose answers can be lost."""
    yield from _losing_by_proxy() if connections["default"].vendor == "postgresql" else _losing_at_the_seam()


def _losing_by_proxy() -> Iterator[Losses]:
    facts = connections["default"].settings_dict
    before = dict(facts)
    proxy = LossyProxy(connector(before))
    connections["default"].close()
    facts |= {"HOST": str(proxy.folder), "PORT": str(PORT)}
    facts["OPTIONS"] = {**before["OPTIONS"], "sslmode": "disable", "gssencmode": "disable"}
    try:
        yield Losses(store=Store(open_session("default")), lose=proxy.lose, count=lambda: proxy.lost)
    finally:
        connections["default"].close()
        facts |= before
        proxy.close()


@dataclass
class _Seam:
    left: int = 0
    lost: int = 0
    points: Failpoints = field(default_factory=Failpoints)

    def lose(self, number: int) -> None:
        self.left = number

    def observe(self, call: Call) -> None:
        if self.left and call.moment == "after" and call.name.endswith("commit"):
            self.left -= 1
            if self.left == 0:
                self.lost += 1
                message = "the answer to a commit is lost"
                raise ConnectionTrouble(message)


def _losing_at_the_seam() -> Iterator[Losses]:
    seam = _Seam()
    seam.points.observers.append(seam.observe)
    store = seam.points.watch("store", Store(open_session("default")))
    yield Losses(store=store, lose=seam.lose, count=lambda: seam.lost)


def state() -> dict[str, list[dict[str, Any]]]:
    """Return all rows: surrogate keys by rank, instants as past or future, everything else as it is."""
    connection = connections["default"]
    found: dict[str, list[dict[str, Any]]] = {}
    with connection.cursor() as cursor:
        now_us = Store(open_session("default")).read_now()
        for table, (order, keys) in TABLES.items():
            cursor.execute(f"SELECT * FROM {table} ORDER BY {order}")
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            for rank, row in enumerate(rows):
                row.update({key: None if row[key] is None else rank for key in ("id", *keys) if key in row})
                if "dedupe_key" in row:
                    row["dedupe_key"] = row["dedupe_key"] and row["dedupe_key"].partition(":")[2]
                for name in names:
                    if name.endswith("_us") and row[name] is not None:
                        row[name] = "past" if row[name] <= now_us else "future"
            found[table] = rows
    return found


def wipe() -> None:
    with connections["default"].cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"DELETE FROM {table}")


def without_stamps(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    for row in found["durable_workflow_runs"]:
        row["wake_requested_at_us"] = None
    return found


def test_every_mutating_verb_has_a_scenario():
    assert set(SCENARIOS) == set(Store.mutating_verbs())


@pytest.mark.parametrize(("verb", "name"), ALL)
def test_a_verb_whose_answer_was_lost_is_repeated_and_has_happened_once(losses: Losses, verb: str, name: str):
    scenario = SCENARIOS[verb][name]
    given = scenario.prepare(losses.store)
    scenario.call(losses.store, given)
    once = state()
    exercised = 0

    for number in range(1, MOST_ANSWERS):
        wipe()
        given = scenario.prepare(losses.store)
        losses.lose(number)
        try:
            scenario.call(losses.store, given)
        except ConnectionTrouble:
            exercised += 1
        else:
            break
        granted = scenario.gives_back(losses.store, given) if scenario.gives_back else ["nothing"]
        scenario.call(losses.store, given)
        repeated = state()

        assert granted
        if scenario.may_stamp:
            assert without_stamps(repeated) == without_stamps(once)
        else:
            assert repeated == once
    losses.lose(0)

    assert exercised == losses.count() >= 1
