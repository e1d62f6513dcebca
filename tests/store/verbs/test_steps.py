"""Settling attempts of dispatched steps, and their messages."""

from __future__ import annotations

import pytest

from durable.core.states import CheckpointStatus, RunStatus
from durable.store.records import OutgoingMessage, TurnEnd
from tests.store.verbs.bench import FAR_US, LEASE_US, Bench, remote, result


def waiting(bench: Bench):
    """Return the lease under which a run was suspended to wait for one step."""
    lease = bench.held()
    end = TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=FAR_US, checkpoints=(remote(lease, policy="p"),))
    bench.store.end_turns([end])
    return lease


def settle(bench: Bench, *settlements, owner: str = "me"):
    return bench.store.settle_steps(owner, list(settlements), lease_us=LEASE_US)


def test_a_result_makes_a_suspended_run_due(bench: Bench):
    lease = waiting(bench)
    settled = settle(bench, result(lease, events="[]", started_at_us=5))[0]

    assert (settled.run_pk, settled.written, settled.claimed, settled.stamped_owner) == (lease.run_pk, True, None, None)
    checkpoint = bench.checkpoints(lease.run_pk)[0]
    assert (checkpoint["status"], checkpoint["output"], checkpoint["started_at_us"]) == ("completed", "7", 5)
    assert checkpoint["finished_at_us"] is not None
    assert [claim.lease.run_pk for claim in bench.claim()] == [lease.run_pk]


def test_whoever_settles_may_take_the_run_at_once(bench: Bench):
    lease = waiting(bench)
    settled = settle(bench, result(lease, claim=True), owner="you")[0]

    assert settled.claimed is not None
    assert settled.claimed.lease.epoch == lease.epoch + 1
    assert settled.claimed.lease.owner == "you"
    assert settled.claimed.input is None
    assert bench.store.holds(settled.claimed.lease)
    assert bench.run(lease.run_pk)["wake_at_us"] < FAR_US


def test_a_result_stamps_a_run_that_is_held(bench: Bench):
    lease = bench.held()
    bench.store.record(lease, [remote(lease)])
    settled = settle(bench, result(lease, claim=True), owner="you")[0]

    assert (settled.written, settled.claimed, settled.stamped_owner) == (True, None, "me")
    assert bench.run(lease.run_pk)["wake_requested_at_us"] is not None
    assert bench.store.holds(lease)


def test_the_first_result_wins_and_later_ones_only_wake(bench: Bench):
    lease = waiting(bench)
    settle(bench, result(lease, output="1"))
    bench.set_run(lease.run_pk, wake_at_us=FAR_US)
    before = bench.checkpoints(lease.run_pk)
    late = settle(bench, result(lease, output="2"), result(lease, status=CheckpointStatus.FAILED, error="{}"))

    assert [each.written for each in late] == [False, False]
    assert bench.checkpoints(lease.run_pk) == before
    assert [claim.lease.run_pk for claim in bench.claim()] == [lease.run_pk]


@pytest.mark.parametrize("attempt", [0, 2])
def test_the_result_of_another_attempt_changes_no_checkpoint(bench: Bench, attempt):
    lease = waiting(bench)
    before = bench.checkpoints(lease.run_pk)

    assert not settle(bench, result(lease, attempt=attempt))[0].written
    assert bench.checkpoints(lease.run_pk) == before


def test_a_result_for_a_run_that_has_ended_wakes_nobody(bench: Bench):
    lease = waiting(bench)
    bench.store.cancel_run(lease.run_id, "{}")
    run = bench.run(lease.run_pk)
    settled = settle(bench, result(lease, claim=True))[0]

    assert (settled.run_pk, settled.claimed) == (None, None)
    assert bench.run(lease.run_pk) == run


def test_a_result_for_nothing_is_nothing(bench: Bench):
    lease = waiting(bench)
    before = bench.checkpoints(lease.run_pk)

    assert not settle(bench, result(lease, 9))[0].written
    assert bench.checkpoints(lease.run_pk) == before


def test_the_deadline_of_the_next_attempt_is_stored(bench: Bench):
    lease = waiting(bench)
    retry_at_us = FAR_US - 5
    failed = result(lease, status=CheckpointStatus.PENDING, output=None, error='{"kind":"E"}', retry_at_us=retry_at_us)
    settled = settle(bench, failed)[0]

    assert (settled.written, settled.claimed) == (True, None)
    checkpoint = bench.checkpoints(lease.run_pk)[0]
    assert (checkpoint["status"], checkpoint["attempts"], checkpoint["wake_at_us"]) == ("pending", 2, retry_at_us)
    assert (checkpoint["enqueued_at_us"], checkpoint["finished_at_us"]) == (None, None)
    assert checkpoint["error"] == '{"kind":"E"}'
    assert bench.run(lease.run_pk)["wake_at_us"] == retry_at_us
    assert bench.claim() == []


def test_an_earlier_deadline_stays(bench: Bench):
    lease = waiting(bench)
    bench.set_run(lease.run_pk, wake_at_us=FAR_US - 9)
    settle(bench, result(lease, status=CheckpointStatus.PENDING, output=None, retry_at_us=FAR_US - 5))

    assert bench.run(lease.run_pk)["wake_at_us"] == FAR_US - 9


def take(bench: Bench, owner: str = "me", *queues: str, limit: int = 10, namespace: str | None = None):
    chosen = queues or ("tasks:a",)
    return bench.store.take_messages(owner, chosen, namespace=namespace, lease_us=LEASE_US, limit=limit)


def test_a_result_takes_its_message_with_it(bench: Bench):
    lease = waiting(bench)
    message_id = bench.message(run_pk=lease.run_pk, seq=0)
    other = bench.message()
    take(bench)

    assert settle(bench, result(lease, message_id=message_id))[0].written
    assert bench.sql("SELECT id FROM durable_transport_messages") == [(other,)]


def test_the_result_of_a_message_that_was_withdrawn_changes_nothing(bench: Bench):
    lease = waiting(bench)
    message_id = bench.message(run_pk=lease.run_pk, seq=0)
    take(bench)
    bench.store.delete_messages("me", [message_id])
    before = bench.checkpoints(lease.run_pk)

    assert not settle(bench, result(lease, message_id=message_id))[0].written
    assert bench.checkpoints(lease.run_pk) == before


def test_beats_are_stored_while_a_step_waits_for_its_result(bench: Bench):
    lease = waiting(bench)

    assert bench.store.record_beat("you", lease.run_id, 0, progress='{"n":1}')
    assert bench.store.record_beat("you", lease.run_id, 0, progress=None)
    checkpoint = bench.checkpoints(lease.run_pk)[0]
    assert (checkpoint["progress"], checkpoint["beat_by"]) == ('{"n":1}', "you")
    assert checkpoint["last_heartbeat_at_us"] is not None
    assert checkpoint["started_at_us"] is not None
    assert bench.store.read_progress(lease.run_pk, 0) == '{"n":1}'
    assert bench.store.read_policy(lease.run_id, 0) == "p"
    assert bench.store.read_policy("unknown", 0) is None

    settle(bench, result(lease))

    assert not bench.store.record_beat("you", lease.run_id, 0, progress=None)


def test_messages_are_taken_once_and_the_oldest_first(bench: Bench):
    ids = [bench.message() for _ in range(5)]
    first, second, rest = take(bench, limit=2), take(bench, "you", limit=2), take(bench)

    assert [message.id for message in first + second + rest] == ids
    assert {message.takes for message in first} == {1}
    assert take(bench) == []


def test_messages_are_taken_from_the_queues_and_the_pool_that_are_served(bench: Bench):
    a, b = bench.message("tasks:a"), bench.message("tasks:b")
    east = bench.message("tasks:a", namespace="east")

    assert [message.id for message in take(bench, "me", "tasks:b", "tasks:c")] == [b]
    assert [message.id for message in take(bench, "me", "tasks:a", namespace="east")] == [east]
    assert take(bench, "me", "tasks:a", namespace="west") == []
    assert [message.id for message in take(bench, "me", "tasks:a", "tasks:b")] == [a]


def test_wakes_are_taken_by_instances_of_any_pool(bench: Bench):
    wake, cancel = bench.message("runs", kind="wake"), bench.message("runs", kind="cancel")

    assert [message.id for message in take(bench, "me", "runs", namespace="east")] == [wake]
    assert [message.id for message in take(bench, "me", "runs", namespace="default")] == [cancel]


def test_a_message_comes_with_the_state_of_its_step(bench: Bench):
    lease = waiting(bench)
    bench.message(run_pk=lease.run_pk, seq=0)
    bench.message("tasks:b")
    about, loose = take(bench)[0], take(bench, "me", "tasks:b")[0]

    assert (about.run_pk, about.seq, about.run_status) == (lease.run_pk, 0, RunStatus.SUSPENDED)
    assert (about.checkpoint_status, about.checkpoint_attempts) == (CheckpointStatus.PENDING, 1)
    assert (loose.run_status, loose.checkpoint_status, loose.checkpoint_attempts) == (None, None, None)


def test_a_message_with_a_key_is_sent_once(bench: Bench):
    message = OutgoingMessage(queue="tasks:a", kind="task", body="{}", dedupe_key="k")

    assert bench.store.send_messages([message, OutgoingMessage(queue="tasks:a", kind="task", body="{}")]) == 2
    assert bench.store.send_messages([message]) == 0
    assert bench.count("transport_messages") == 2


def test_a_hold_that_nobody_renews_is_released_and_counted(bench: Bench):
    message_id = bench.message()
    take(bench)
    bench.sql("UPDATE durable_transport_messages SET held_until_us = 1 RETURNING id")

    assert bench.store.release_expired_holds(limit=10) == 1
    again = take(bench, "you")[0]
    assert (again.id, again.takes) == (message_id, 2)
    assert bench.store.release_expired_holds(limit=10) == 0


def test_holds_are_renewed_by_their_holder_only(bench: Bench):
    lease = waiting(bench)
    mine, yours = bench.message(run_pk=lease.run_pk, seq=0), bench.message("tasks:b")
    take(bench)
    take(bench, "you", "tasks:b")
    before = dict(bench.sql("SELECT id, held_until_us FROM durable_transport_messages"))
    held = bench.store.hold_messages("me", [mine, yours, 99_999_999], lease_us=2 * LEASE_US)

    assert held == {mine: RunStatus.SUSPENDED}
    after = dict(bench.sql("SELECT id, held_until_us FROM durable_transport_messages"))
    assert after[mine] > before[mine]
    assert after[yours] == before[yours]
    assert bench.store.surviving_messages("me", [mine, yours]) == {mine}


def test_a_message_that_is_given_back_is_not_counted_and_waits(bench: Bench):
    now, later, foreign = bench.message(), bench.message(), bench.message("tasks:b")
    take(bench)
    take(bench, "you", "tasks:b")

    assert bench.store.give_back_messages("me", [now, foreign]) == 1
    assert bench.store.give_back_messages("me", [later], delay_us=60_000_000) == 1
    again = take(bench, "you")
    assert [(message.id, message.takes) for message in again] == [(now, 1)]


def test_a_take_whose_answer_was_lost_is_adopted(bench: Bench):
    known, lost = bench.message(), bench.message()
    take(bench)
    assert bench.store.adopt_messages("me", [known], lease_us=LEASE_US) == []

    bench.sql(f"UPDATE durable_transport_messages SET held_until_us = held_until_us - {LEASE_US // 2} RETURNING id")

    assert [message.id for message in bench.store.adopt_messages("me", [known], lease_us=LEASE_US)] == [lost]
    assert bench.store.adopt_messages("you", [], lease_us=LEASE_US) == []


def test_messages_are_deleted_by_their_holder_only(bench: Bench):
    mine, yours = bench.message(), bench.message("tasks:b")
    take(bench)
    take(bench, "you", "tasks:b")

    assert bench.store.delete_messages("me", [mine, yours]) == 1
    assert bench.sql("SELECT id FROM durable_transport_messages") == [(yours,)]
