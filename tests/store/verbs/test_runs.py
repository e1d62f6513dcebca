"""Starting, claiming, cancelling, retrying, recovering."""

from __future__ import annotations

import pytest

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.store.records import Interest, NewRun, TurnEnd
from tests.store.verbs.bench import EVERYTHING, FAR_US, LEASE_US, Bench, local, remote, result


def test_a_run_is_started_once(bench: Bench):
    new = NewRun(run_id="x", workflow="w", version="1", input='{"a":1}', input_shape="object", execution_timeout_us=5)
    first, second = bench.store.start_runs([new, new])

    assert (first.created, second.created) == (True, False)
    assert first.run_pk == second.run_pk
    assert (second.workflow, second.input, second.status) == ("w", '{"a":1}', RunStatus.PENDING)
    row = bench.run(first.run_pk)
    assert row["status"] == "pending"
    assert row["wake_at_us"] is not None
    assert row["deadline_at_us"] == row["wake_at_us"] + 5


def test_an_id_that_exists_is_reported_with_what_it_belongs_to(bench: Bench):
    pk = bench.start("x", workflow="v", input="7")
    again = bench.store.start_runs([NewRun(run_id="x", workflow="w", version="1", input="8", input_shape="single")])[0]

    assert (again.created, again.run_pk, again.workflow, again.input) == (False, pk, "v", "7")
    assert bench.count("workflow_runs") == 1


def test_a_run_is_read_by_id_and_by_key(bench: Bench):
    pk = bench.start("x", input="7")

    record = bench.store.read_run("x")

    assert record is not None
    assert (record.run_pk, record.namespace) == (pk, "default")
    assert bench.store.read_run_by_pk(pk) == record
    assert bench.store.read_run("y") is None
    assert bench.store.read_run_by_pk(pk + 1) is None
    assert bench.store.read_inputs([pk, pk + 1]) == {pk: "7"}


def test_a_claim_grants_a_lease(bench: Bench):
    pk = bench.start("x", input="7", input_shape="single")
    claim = bench.claim("me")[0]

    assert (claim.lease.run_pk, claim.lease.run_id, claim.lease.owner, claim.lease.epoch) == (pk, "x", "me", 1)
    assert (claim.workflow, claim.version, claim.input, claim.input_shape) == ("w", "1", "7", "single")
    assert claim.fresh
    row = bench.run(pk)
    assert (row["status"], row["lease_owner"], row["lease_epoch"], row["wake_at_us"]) == ("running", "me", 1, None)
    assert row["lease_expires_at_us"] - claim.claimed_at_us == pytest.approx(LEASE_US, abs=1_000_000)
    assert row["started_at_us"] is not None
    assert bench.claim("you") == []


def test_the_oldest_runs_are_claimed_first_and_no_more_than_there_is_room_for(bench: Bench):
    pks = [bench.start() for _ in range(5)]
    for pk, wake_at_us in zip(pks, (50, 20, 40, 10, 30), strict=True):
        bench.set_run(pk, wake_at_us=wake_at_us)
    first, second, rest = bench.claim(limit=2), bench.claim(limit=1), bench.claim()

    assert {claim.lease.run_pk for claim in first} == {pks[3], pks[1]}
    assert [claim.lease.run_pk for claim in second] == [pks[4]]
    assert {claim.lease.run_pk for claim in rest} == {pks[2], pks[0]}


@pytest.mark.parametrize(
    ("interest", "expected"),
    [
        (Interest(workflows=(("w", "1"),)), {"w1", "far"}),
        (Interest(workflows=(("w", "2"), ("v", "1"))), {"w2", "v1"}),
        (Interest(workflows=(("w", "1"),), namespace="east"), {"far"}),
        (Interest(workflows=(("w", "1"),), namespace="west"), set()),
        (Interest(workflows=()), set()),
    ],
)
def test_a_claim_takes_only_what_the_instance_can_execute(bench: Bench, interest, expected):
    bench.start("w1")
    bench.start("w2", version="2")
    bench.start("v1", workflow="v")
    bench.start("far", namespace="east")

    assert {claim.lease.run_id for claim in bench.claim(interest=interest)} == expected


def test_a_due_run_is_claimed_and_moved_a_lease_ahead(bench: Bench):
    lease = bench.suspended(wake_at_us=1)
    bench.set_run(lease.run_pk, wake_requested_at_us=5, waiting_on="timer")
    claim = bench.claim("you")[0]

    assert claim.lease.epoch == lease.epoch + 1
    assert claim.input is None
    assert not claim.fresh
    row = bench.run(lease.run_pk)
    assert row["wake_requested_at_us"] is None
    assert row["waiting_on"] == ""
    assert row["wake_at_us"] - claim.claimed_at_us == pytest.approx(LEASE_US, abs=1_000_000)


def test_what_is_not_due_is_not_claimed(bench: Bench):
    bench.suspended(wake_at_us=FAR_US)
    ended = bench.held()
    bench.store.end_turns([TurnEnd(lease=ended, status=RunStatus.COMPLETED, output="1")])

    assert bench.claim() == []


def test_a_claim_whose_answer_was_lost_is_adopted(bench: Bench):
    known, lost, young = bench.held(), bench.held(), bench.held()
    bench.held("you")
    for lease in (known, lost):
        expires = bench.run(lease.run_pk)["lease_expires_at_us"]
        bench.set_run(lease.run_pk, lease_expires_at_us=expires - LEASE_US // 2)
    adopted = bench.store.adopt_runs("me", [known.run_pk], lease_us=LEASE_US)

    assert [claim.lease for claim in adopted] == [lost]
    assert young.run_pk not in {claim.lease.run_pk for claim in adopted}


@pytest.mark.parametrize("before", ["pending", "running", "suspended", "stamped"])
def test_an_open_run_is_cancelled_whoever_holds_it(bench: Bench, before):
    if before == "pending":
        pk, epoch, run_id = bench.start("x"), 0, "x"
    else:
        lease = bench.suspended() if before == "suspended" else bench.held()
        pk, epoch, run_id = lease.run_pk, lease.epoch, lease.run_id
    if before == "stamped":
        bench.set_run(pk, wake_requested_at_us=1)

    assert bench.store.cancel_run(run_id, '{"code":"c"}')

    row = bench.run(pk)
    assert (row["status"], row["error"], row["lease_owner"], row["lease_epoch"]) == (
        "cancelled",
        '{"code":"c"}',
        None,
        epoch + 1,
    )
    assert row["wake_at_us"] is row["wake_requested_at_us"] is row["lease_expires_at_us"] is None
    assert row["finished_at_us"] is not None


def test_a_run_that_has_ended_is_not_cancelled(bench: Bench):
    lease = bench.held()
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.COMPLETED, output="1")])
    before = bench.everything()

    assert not bench.store.cancel_run(lease.run_id, "{}")
    assert not bench.store.cancel_run("unknown", "{}")
    assert bench.everything() == before


def test_a_cancelled_run_waits_for_no_signal(bench: Bench):
    lease, other = bench.held(), bench.held()
    for each in (lease, other):
        end = TurnEnd(lease=each, status=RunStatus.SUSPENDED, wake_at_us=FAR_US, waiters=((0, "t"),))
        bench.store.end_turns([end])
    bench.store.cancel_run(lease.run_id, "{}")

    assert bench.sql("SELECT run_pk FROM durable_signal_waiters") == [(other.run_pk,)]


def test_a_cancel_takes_back_the_tasks_of_its_run(bench: Bench):
    lease, other = bench.held(), bench.held()
    for each in (lease, other):
        bench.store.record(each, [remote(each, 0), remote(each, 1, attempts=2)])
    keys = [f"{each.run_pk}:{task}" for each in (lease, other) for task in ("0:1", "1:2")]
    for key in keys:
        bench.message(dedupe_key=key)

    bench.store.cancel_run(lease.run_id, "{}")

    assert bench.sql("SELECT dedupe_key FROM durable_transport_messages ORDER BY id") == [(key,) for key in keys[2:]]


def failed_run(bench: Bench, *, failed_seq: int | None = None):
    lease = bench.held()
    bench.store.record(lease, [local(lease, 0), remote(lease, 1, status=CheckpointStatus.FAILED, error="{}")])
    bench.store.record(lease, [local(lease, 2)])
    bench.store.record(lease, [remote(lease, 3, status=CheckpointStatus.FAILED, error="{}"), remote(lease, 4)])
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}", note="n")])
    return lease


def test_a_retry_removes_what_had_not_succeeded_and_keeps_what_had(bench: Bench):
    lease = failed_run(bench)
    attempts = bench.sql(f"SELECT attempts FROM durable_step_checkpoints WHERE run_pk = {lease.run_pk} AND seq = 4")[0][
        0
    ]
    bench.message(run_pk=lease.run_pk, seq=4, dedupe_key=f"{lease.run_pk}:4:{attempts}")
    other = bench.message(run_pk=lease.run_pk + 1, seq=4, dedupe_key=f"{lease.run_pk + 1}:4:{attempts}")

    assert bench.store.retry_run(lease.run_id, generation=0, failed_seq=3)

    assert [(each["seq"], each["status"]) for each in bench.checkpoints(lease.run_pk)] == [
        (0, "completed"),
        (1, "failed"),
        (2, "completed"),
    ]
    assert bench.sql("SELECT id FROM durable_transport_messages") == [(other,)]
    row = bench.run(lease.run_pk)
    assert (row["status"], row["generation"], row["pending_seq"], row["recovery_attempts"]) == ("pending", 1, 2, 0)
    assert (row["error"], row["note"], row["finished_at_us"]) == (None, "", None)


def test_a_retry_that_does_not_know_where_it_failed_keeps_failures_before_the_last_success(bench: Bench):
    lease = failed_run(bench)
    bench.store.retry_run(lease.run_id, generation=0, failed_seq=None)

    assert [each["seq"] for each in bench.checkpoints(lease.run_pk)] == [0, 1, 2]


def test_a_retry_removes_what_followed_the_failure_but_no_success_of_its_group(bench: Bench):
    lease = bench.held()
    failed = remote(lease, 2, status=CheckpointStatus.FAILED, error="{}", parallel_group=1)
    group = [remote(lease, seq, status=CheckpointStatus.COMPLETED, parallel_group=1) for seq in (1, 3)]
    bench.store.record(lease, [local(lease, 0), *group, failed, remote(lease, 4, parallel_group=1)])
    later = [remote(lease, 6, parallel_group=6, status=CheckpointStatus.COMPLETED), local(lease, 7)]
    bench.store.record(lease, [local(lease, 5), *later])
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}")])

    bench.store.retry_run(lease.run_id, generation=0, failed_seq=2)

    assert [each["seq"] for each in bench.checkpoints(lease.run_pk)] == [0, 1, 3]


def test_a_retry_tries_every_failure_of_the_group_again(bench: Bench):
    lease = bench.held()
    failed = [remote(lease, seq, status=CheckpointStatus.FAILED, error="{}", parallel_group=1) for seq in (1, 2)]
    caught = remote(lease, 0, status=CheckpointStatus.FAILED, error="{}")
    bench.store.record(lease, [caught, *failed])
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}")])

    bench.store.retry_run(lease.run_id, generation=0, failed_seq=2)

    assert [each["seq"] for each in bench.checkpoints(lease.run_pk)] == [0]


def test_a_retry_keeps_a_failure_of_the_group_that_the_body_has_dealt_with(bench: Bench):
    lease = bench.held()
    failed = [remote(lease, seq, status=CheckpointStatus.FAILED, error="{}", parallel_group=0) for seq in (0, 2)]
    bench.store.record(lease, [*failed, local(lease, 1)])
    bench.store.end_turns([TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}")])

    bench.store.retry_run(lease.run_id, generation=0, failed_seq=2)

    assert [each["seq"] for each in bench.checkpoints(lease.run_pk)] == [0, 1]


@pytest.mark.parametrize("status", ["pending", "running", "suspended", "blocked", "cancelling", "completed"])
def test_only_what_ended_without_success_is_retried(bench: Bench, status):
    lease = failed_run(bench)
    bench.set_run(lease.run_pk, status=status)
    before = bench.everything()

    assert not bench.store.retry_run(lease.run_id, generation=0, failed_seq=None)
    assert bench.everything() == before


def test_a_retry_of_an_older_look_does_nothing(bench: Bench):
    lease = failed_run(bench)
    bench.store.retry_run(lease.run_id, generation=0, failed_seq=None)
    bench.store.cancel_run(lease.run_id, "{}")
    before = bench.everything()

    assert not bench.store.retry_run(lease.run_id, generation=0, failed_seq=None)
    assert bench.everything() == before


def recover(bench: Bench, *, max_attempts: int | None = 10, limit: int = 10):
    return bench.store.recover_runs(max_attempts=max_attempts, limit=limit, error='{"code":"dead"}')


def test_runs_whose_lease_ran_out_are_recovered_oldest_first(bench: Bench):
    leases = [bench.held() for _ in range(4)]
    for lease, expires_at_us in zip(leases[:3], (30, 10, 20), strict=True):
        bench.set_run(lease.run_pk, lease_expires_at_us=expires_at_us)
    first, rest = recover(bench, limit=1), recover(bench)

    assert [run.run_pk for run in first] == [leases[1].run_pk]
    assert {run.run_pk for run in rest} == {leases[0].run_pk, leases[2].run_pk}
    row = bench.run(leases[1].run_pk)
    assert (row["status"], row["lease_owner"], row["lease_epoch"]) == ("pending", None, leases[1].epoch + 1)
    assert (row["recovery_attempts"], row["generation"]) == (1, 1)
    assert bench.run(leases[3].run_pk)["status"] == "running"


def test_a_run_that_waits_for_a_dispatched_step_is_recovered_without_being_counted(bench: Bench):
    lease = bench.held()
    bench.store.hold_turn(lease, [local(lease, 0), remote(lease, 1)], [], waiting_on="step charge")
    bench.set_run(lease.run_pk, lease_expires_at_us=1, recovery_attempts=10)

    assert [run.status for run in recover(bench)] == [RunStatus.PENDING]
    assert bench.run(lease.run_pk)["recovery_attempts"] == 10


def test_a_run_that_was_executed_when_its_process_died_is_counted_whatever_it_had_dispatched(bench: Bench):
    lease = bench.held()
    bench.store.record(lease, [remote(lease, 0), remote(lease, 1)])
    seen = []
    for _ in range(3):
        bench.set_run(lease.run_pk, lease_expires_at_us=1)
        seen += [run.status.value for run in recover(bench, max_attempts=2)]
        bench.claim()

    assert seen == ["pending", "pending", "dead"]


def go_on_after_wake(bench: Bench, lease):
    bench.store.hold_turn(lease, [remote(lease)], [], waiting_on="step charge")
    bench.store.begin_turn(lease)


def go_on_after_result(bench: Bench, lease):
    end = TurnEnd(
        lease=lease,
        status=RunStatus.SUSPENDED,
        wake_at_us=FAR_US,
        waiting_on="step charge",
        checkpoints=(remote(lease),),
    )
    bench.store.end_turns([end])
    assert bench.store.settle_steps("me", [result(lease, claim=True)], lease_us=LEASE_US)[0].claimed


@pytest.mark.parametrize("go_on", [go_on_after_wake, go_on_after_result])
def test_a_run_that_waited_and_goes_on_is_counted(bench: Bench, go_on):
    lease = bench.held()
    go_on(bench, lease)
    bench.set_run(lease.run_pk, lease_expires_at_us=1)
    recover(bench)

    assert bench.run(lease.run_pk)["recovery_attempts"] == 1


@pytest.mark.parametrize(
    ("attempts", "max_attempts", "status"), [(9, 10, "pending"), (10, 10, "dead"), (99, None, "pending")]
)
def test_a_run_that_was_recovered_too_often_is_dead(bench: Bench, attempts, max_attempts, status):
    lease = bench.held()
    bench.set_run(lease.run_pk, lease_expires_at_us=1, recovery_attempts=attempts)
    recovered = recover(bench, max_attempts=max_attempts)

    assert [run.status.value for run in recovered] == [status]
    row = bench.run(lease.run_pk)
    assert row["error"] == ('{"code":"dead"}' if status == "dead" else None)
    assert (row["finished_at_us"] is not None) is (status == "dead")
    assert (row["wake_at_us"] is None) is (status == "dead")


def test_a_run_whose_time_limit_has_passed_is_ended(bench: Bench):
    late, other, ended = bench.held(), bench.held(), bench.held()
    bench.store.end_turns([TurnEnd(lease=ended, status=RunStatus.COMPLETED)])
    bench.set_run(late.run_pk, deadline_at_us=1)
    bench.set_run(other.run_pk, deadline_at_us=FAR_US)
    bench.set_run(ended.run_pk, deadline_at_us=1)
    expired = bench.store.expire_runs(limit=10, error='{"code":"late"}')

    assert [(run.run_pk, run.status) for run in expired] == [(late.run_pk, RunStatus.CANCELLED)]
    assert bench.run(late.run_pk)["error"] == '{"code":"late"}'
    assert not bench.store.holds(late)
    assert bench.store.holds(other)


def test_a_suspended_run_can_be_failed_unless_it_is_executed_again(bench: Bench):
    lease, busy = bench.suspended(), bench.held()

    assert bench.store.fail_suspended(lease.run_pk, generation=0, error="{}")
    assert not bench.store.fail_suspended(lease.run_pk, generation=0, error="{}")
    assert not bench.store.fail_suspended(busy.run_pk, generation=0, error="{}")
    assert bench.run(lease.run_pk)["status"] == "failed"
    assert bench.run(busy.run_pk)["status"] == "running"


def test_a_look_tells_what_is_due_and_when_next(bench: Bench):
    quiet = bench.store.look(EVERYTHING)
    assert (quiet.runs_due, quiet.messages_ready, quiet.overdue, quiet.next_at_us) == (False, False, False, None)

    bench.suspended(wake_at_us=FAR_US)
    held = bench.held()
    look = bench.store.look(EVERYTHING)
    assert (look.runs_due, look.overdue) == (False, False)
    assert look.next_at_us == bench.run(held.run_pk)["lease_expires_at_us"]

    bench.message("tasks:a")
    bench.start()
    look = bench.store.look(EVERYTHING)
    assert (look.runs_due, look.messages_ready) == (True, True)
    elsewhere = bench.store.look(Interest(workflows=(("x", "1"),), queues=("tasks:b",)))
    assert (elsewhere.runs_due, elsewhere.messages_ready) == (False, False)

    bench.set_run(held.run_pk, lease_expires_at_us=1)
    assert bench.store.look(EVERYTHING).overdue


def test_an_instance_of_a_pool_sees_every_wake(bench: Bench):
    east = Interest(queues=("runs",), namespace="east")
    bench.message("runs", kind="cancel")
    assert not bench.store.look(east).messages_ready

    bench.message("runs", kind="wake")
    assert bench.store.look(east).messages_ready


def test_a_look_sees_the_end_of_a_hold_and_of_a_time_limit(bench: Bench):
    bench.message("tasks:a")
    bench.store.take_messages("me", ["tasks:a"], namespace=None, lease_us=LEASE_US, limit=1)
    until = bench.sql("SELECT held_until_us FROM durable_transport_messages")[0][0]
    look = bench.store.look(EVERYTHING)
    assert (look.messages_ready, look.overdue, look.next_at_us) == (False, False, until)

    bench.set_run(bench.suspended().run_pk, deadline_at_us=1)
    assert bench.store.look(EVERYTHING).overdue


def test_runs_that_nothing_will_look_at_again_are_orphans(bench: Bench):
    bench.start()
    bench.held()
    bench.suspended()
    stamped, orphan, lost = bench.suspended(), bench.suspended(run_id="orphan"), bench.held(run_id="lost")
    bench.set_run(stamped.run_pk, wake_at_us=None, wake_requested_at_us=1)
    assert bench.store.find_orphans() == []

    bench.set_run(orphan.run_pk, wake_at_us=None)
    bench.set_run(lost.run_pk, lease_expires_at_us=None)

    assert sorted(bench.store.find_orphans()) == ["lost", "orphan"]


def test_histories_are_read_in_order(bench: Bench):
    first, second = bench.held(), bench.held()
    bench.store.record(first, [local(first, 1, name="b"), local(first, 0, name="a")])
    bench.store.record(second, [local(second, 0, kind=CheckpointKind.SIDE_EFFECT)])
    histories = bench.store.read_histories([first.run_pk, second.run_pk, 99])

    assert [record.name for record in histories[first.run_pk]] == ["a", "b"]
    assert [record.kind for record in histories[second.run_pk]] == [CheckpointKind.SIDE_EFFECT]
    assert [record.seq for record in bench.store.read_history_from(first.run_pk, 1)] == [1]
    assert bench.store.read_now() > 0
