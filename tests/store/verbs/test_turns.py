"""What a holder writes, and that nobody else writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from durable.core.states import CheckpointStatus, RunStatus
from durable.store.records import Lease, OutgoingMessage, TurnEnd
from durable.store.store import Store
from tests.store.verbs.bench import FAR_US, LEASE_US, Bench, local, remote

SUSPENDED: dict[str, Any] = {"status": RunStatus.SUSPENDED, "wake_at_us": FAR_US}
MESSAGE = OutgoingMessage(queue="tasks:a", kind="task", body="{}")


def wrong_owner(bench: Bench, lease: Lease) -> Lease:
    return replace(lease, owner="you")


def old_epoch(bench: Bench, lease: Lease) -> Lease:
    return replace(lease, epoch=lease.epoch - 1)


def run_out(bench: Bench, lease: Lease) -> Lease:
    bench.set_run(lease.run_pk, lease_expires_at_us=1)
    return lease


def cancelled(bench: Bench, lease: Lease) -> Lease:
    bench.store.cancel_run(lease.run_id, "{}")
    return lease


def suspended(bench: Bench, lease: Lease) -> Lease:
    bench.store.end_turns([TurnEnd(lease=lease, **SUSPENDED)])
    return lease


def taken_over(bench: Bench, lease: Lease) -> Lease:
    bench.set_run(lease.run_pk, lease_expires_at_us=1)
    bench.store.recover_runs(max_attempts=None, limit=10, error="{}")
    bench.claim("you")
    return lease


def cancelling(bench: Bench, lease: Lease) -> Lease:
    bench.set_run(lease.run_pk, status="cancelling")
    return lease


WAYS_TO_LOSE = [wrong_owner, old_epoch, run_out, cancelled, suspended, taken_over, cancelling]


def take(store: Store, lease: Lease) -> Any:
    waiting = local(lease, 5, status=CheckpointStatus.PENDING)
    end = TurnEnd(lease=lease, **SUSPENDED, checkpoints=(waiting,), waiters=((5, "t"),))
    return None if store.take_signal(lease, ["t"], waiting, end).lost else "taken"


HOLDER_VERBS: list[tuple[str, Callable[[Store, Lease], Any], Any]] = [
    ("record one", lambda store, lease: store.record(lease, [local(lease, 5)]), 0),
    ("record many", lambda store, lease: store.record(lease, [local(lease, 5), local(lease, 6)]), 0),
    ("record with messages", lambda store, lease: store.record(lease, [remote(lease, 5)], [MESSAGE]), 0),
    ("note running", lambda store, lease: store.note_running(lease, local(lease, 5)), False),
    ("begin turn", lambda store, lease: store.begin_turn(lease), None),
    ("record with", lambda store, lease: store.record_with(lease, lambda: local(lease, 5)), False),
    ("suspend", lambda store, lease: store.end_turns([TurnEnd(lease=lease, **SUSPENDED)]), [False]),
    (
        "end with everything",
        lambda store, lease: store.end_turns(
            [
                TurnEnd(
                    lease=lease,
                    status=RunStatus.COMPLETED,
                    output="1",
                    checkpoints=(local(lease, 5),),
                    messages=(MESSAGE,),
                    waiters=((5, "t"),),
                )
            ]
        ),
        [False],
    ),
    ("take a signal", take, None),
    ("holds", lambda store, lease: store.holds(lease), False),
]


@pytest.mark.parametrize("lose", WAYS_TO_LOSE, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("verb", "nothing"), [each[1:] for each in HOLDER_VERBS], ids=[each[0] for each in HOLDER_VERBS]
)
def test_whoever_does_not_hold_the_lease_writes_nothing(bench: Bench, lose, verb, nothing):
    lease = lose(bench, bench.held())
    before = bench.everything()

    assert verb(bench.store, lease) == nothing
    assert bench.everything() == before


@pytest.mark.parametrize(("name", "verb"), [each[:2] for each in HOLDER_VERBS], ids=[each[0] for each in HOLDER_VERBS])
def test_the_holder_writes(bench: Bench, name, verb):
    lease = bench.held()

    assert verb(bench.store, lease) not in (0, False, None, [False])


def test_renewal_prolongs_what_is_held_and_tells_of_stamps(bench: Bench):
    plain, stamped, foreign, gone = bench.held(), bench.held(), bench.held("you"), bench.suspended()
    for lease in (plain, stamped, foreign):
        expires = bench.run(lease.run_pk)["lease_expires_at_us"]
        bench.set_run(lease.run_pk, lease_expires_at_us=expires - 1_000_000)
    bench.set_run(stamped.run_pk, wake_requested_at_us=1)
    pks = [lease.run_pk for lease in (plain, stamped, foreign, gone)]
    renewed = bench.store.renew_leases("me", pks, lease_us=2 * LEASE_US)

    assert {(each.run_pk, each.epoch, each.stamped) for each in renewed} == {
        (plain.run_pk, plain.epoch, False),
        (stamped.run_pk, stamped.epoch, True),
    }
    rows = [bench.run(lease.run_pk)["lease_expires_at_us"] for lease in (plain, foreign)]
    assert rows[0] - rows[1] > LEASE_US // 2
    assert bench.store.standing_leases("me", pks) == {plain.run_pk: plain.epoch, stamped.run_pk: stamped.epoch}


def test_a_lease_that_ran_out_is_not_renewed(bench: Bench):
    lease = run_out(bench, bench.held())

    assert bench.store.renew_leases("me", [lease.run_pk], lease_us=LEASE_US) == []
    assert bench.store.standing_leases("me", [lease.run_pk]) == {}


def test_a_stamped_run_is_not_released(bench: Bench):
    lease = bench.held()
    bench.set_run(lease.run_pk, wake_requested_at_us=1)
    end = TurnEnd(lease=lease, **SUSPENDED, checkpoints=(local(lease),), messages=(MESSAGE,), waiters=((0, "t"),))
    before = bench.everything()

    assert bench.store.end_turns([end]) == [False]
    assert bench.everything() == before
    assert bench.store.holds(lease)
    assert not bench.store.released(lease)
    assert bench.store.begin_turn(lease) is not None
    assert bench.store.end_turns([end]) == [True]


def test_a_stamped_run_ends_all_the_same(bench: Bench):
    lease = bench.held()
    bench.set_run(lease.run_pk, wake_requested_at_us=1)

    assert bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.COMPLETED, output="1")]) == [True]
    assert bench.run(lease.run_pk)["wake_requested_at_us"] is None


def test_the_end_of_a_turn_writes_everything_at_once(bench: Bench):
    lease = bench.held()
    end = TurnEnd(
        lease=lease,
        **SUSPENDED,
        waiting_on="signal t",
        note="n",
        checkpoints=(local(lease, 0), remote(lease, 1)),
        messages=(MESSAGE, MESSAGE),
        waiters=((2, "t"), (2, "u")),
    )

    assert bench.store.end_turns([end]) == [True]
    assert bench.store.released(lease)
    row = bench.run(lease.run_pk)
    assert (row["status"], row["wake_at_us"], row["waiting_on"], row["note"]) == ("suspended", FAR_US, "signal t", "n")
    assert (row["lease_owner"], row["lease_epoch"], row["finished_at_us"]) == (None, lease.epoch, None)
    assert [each["seq"] for each in bench.checkpoints(lease.run_pk)] == [0, 1]
    assert bench.count("transport_messages") == bench.count("signal_waiters") == 2


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_run_that_ends_says_how(bench: Bench, status):
    lease = bench.held()
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus(status), output="1", error="{}")])

    record = bench.store.read_run_by_pk(lease.run_pk)
    assert record is not None
    assert (record.status, record.output, record.error, record.lease_owner) == (status, "1", "{}", None)
    assert bench.run(lease.run_pk)["wake_at_us"] is None
    assert bench.run(lease.run_pk)["finished_at_us"] is not None


def test_a_release_that_is_repeated_is_known_as_ones_own(bench: Bench):
    lease = bench.held()
    end = TurnEnd(lease=lease, **SUSPENDED)
    bench.store.end_turns([end])

    assert bench.store.end_turns([end]) == [False]
    assert bench.store.released(lease)

    bench.store.cancel_run(lease.run_id, "{}")

    assert not bench.store.released(lease)


def test_a_settled_checkpoint_never_changes(bench: Bench):
    lease = bench.held()
    bench.store.record(lease, [local(lease, 0, output="1")])
    bench.store.record(lease, [local(lease, 1, status=CheckpointStatus.FAILED, output=None, error="{}")])
    before = bench.checkpoints(lease.run_pk)

    assert bench.store.record(lease, [local(lease, 0, output="2")]) == 0
    assert bench.store.record(lease, [local(lease, 1, output="2"), local(lease, 0, output="3")]) == 0
    assert not bench.store.note_running(lease, local(lease, 0, status=CheckpointStatus.RUNNING))
    assert not bench.store.record_with(lease, lambda: local(lease, 0, output="2"))
    assert bench.checkpoints(lease.run_pk) == before


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_checkpoint_that_has_begun_is_written_over(bench: Bench, status):
    lease = bench.held()
    bench.store.record(lease, [local(lease, 0, status=CheckpointStatus(status), output=None, policy="p", input="i")])

    assert bench.store.record(lease, [local(lease, 0, attempts=2)]) == 1
    written = bench.checkpoints(lease.run_pk)[0]
    assert (written["status"], written["output"], written["attempts"], written["policy"]) == ("completed", "1", 2, "p")


def test_some_of_several_checkpoints_may_be_settled_already(bench: Bench):
    lease = bench.held()
    bench.store.record(lease, [local(lease, 0, output="first")])

    assert bench.store.record(lease, [local(lease, 0, output="again"), local(lease, 1, output="new")]) == 1
    assert [each["output"] for each in bench.checkpoints(lease.run_pk)] == ["first", "new"]


def test_a_step_that_takes_long_is_noted_once(bench: Bench):
    lease = bench.held()
    running = local(lease, 0, status=CheckpointStatus.RUNNING, output=None)

    assert bench.store.note_running(lease, running)
    assert not bench.store.note_running(lease, replace(running, attempts=2))


def test_user_code_and_its_checkpoint_stand_or_fall_together(bench: Bench):
    lease = bench.held()

    def work() -> Any:
        bench.message("tasks:a")
        return local(lease, 0)

    def fail() -> Any:
        bench.message("tasks:a")
        raise ValueError("no")

    assert bench.store.record_with(lease, work)
    assert not bench.store.record_with(lease, work)
    with pytest.raises(ValueError, match="no"):
        bench.store.record_with(lease, fail)
    assert bench.count("transport_messages") == 1


def test_the_fence_is_checked_again_after_user_code(bench: Bench):
    lease = bench.held()

    def work() -> Any:
        bench.message("tasks:a")
        bench.set_run(lease.run_pk, lease_expires_at_us=1)
        return local(lease, 0)

    assert not bench.store.record_with(lease, work)
    assert bench.count("transport_messages") == 0


def test_verbs_are_counted(bench: Bench):
    lease = bench.held()
    counters = bench.store.session.counters
    before = (counters.statements, counters.commits)
    bench.store.record(lease, [local(lease, 0)])

    assert (counters.statements - before[0], counters.commits - before[1]) == (1, 1)

    before = (counters.statements, counters.commits)
    bench.store.end_turns([TurnEnd(lease=lease, **SUSPENDED, checkpoints=(local(lease, 1),), messages=(MESSAGE,))])

    assert counters.statements - before[0] <= 5
    assert counters.commits - before[1] == 1
