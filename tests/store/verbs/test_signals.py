"""Signals: kept, consumed once, first in first out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.store.records import NewSignal, TurnEnd
from tests.store.verbs.bench import FAR_US, LEASE_US, Bench, local


def send(bench: Bench, token: str, payload: str, key: str | None = None) -> None:
    bench.store.send_signal(NewSignal(token=token, key=key or f"{token}/{payload}", payload=payload))


def waits(lease, seq: int = 0):
    return local(lease, seq, name="t", kind=CheckpointKind.SIGNAL, status=CheckpointStatus.PENDING, output=None)


def take(bench: Bench, lease, *tokens: str, seq: int = 0):
    waiting = waits(lease, seq)
    end = TurnEnd(
        lease=lease,
        status=RunStatus.SUSPENDED,
        wake_at_us=FAR_US,
        checkpoints=(waiting,),
        waiters=tuple((seq, token) for token in tokens),
    )
    return bench.store.take_signal(lease, tokens, waiting, end)


def serve(bench: Bench):
    held = bench.store.take_messages("me", ["runs"], namespace=None, lease_us=LEASE_US, limit=64)
    return bench.store.serve_wakes("me", [(message.id, message.body) for message in held])


def test_a_signal_is_kept_and_a_wake_is_sent(bench: Bench):
    send(bench, "t", "1")

    assert bench.sql("SELECT token, payload, consumed_run_pk FROM durable_buffered_signals") == [("t", "1", None)]
    assert bench.sql("SELECT queue, kind, body FROM durable_transport_messages") == [("runs", "wake", "t")]


def test_a_signal_with_a_key_is_sent_once(bench: Bench):
    send(bench, "t", "1", key="k")
    send(bench, "t", "1", key="k")
    assert (bench.count("buffered_signals"), bench.count("transport_messages")) == (1, 1)

    serve(bench)
    lease = bench.held()
    take(bench, lease, "t")
    send(bench, "t", "1", key="k")

    assert (bench.count("buffered_signals"), bench.count("transport_messages")) == (1, 0)


def test_the_oldest_signal_of_any_of_the_tokens_is_taken(bench: Bench):
    for token, payload in (("x", "0"), ("b", "1"), ("a", "2"), ("b", "3")):
        send(bench, token, payload)
    lease = bench.held()
    outputs = []
    for seq in range(3):
        taken = take(bench, lease, "a", "b", seq=seq)
        assert taken.checkpoint is not None
        outputs.append(taken.checkpoint.output)

    assert outputs == [
        '{"signal":"b","payload":1}',
        '{"signal":"a","payload":2}',
        '{"signal":"b","payload":3}',
    ]
    assert [each["status"] for each in bench.checkpoints(lease.run_pk)] == ["completed"] * 3
    assert bench.sql("SELECT token FROM durable_buffered_signals WHERE consumed_run_pk IS NULL") == [("x",)]


def test_a_signal_is_consumed_once(bench: Bench):
    send(bench, "t", "1")
    first, second = bench.held(), bench.held()

    assert take(bench, first, "t").checkpoint is not None
    assert take(bench, second, "t").suspended
    row = bench.sql("SELECT consumed_run_pk, consumed_seq FROM durable_buffered_signals")
    assert row == [(first.run_pk, 0)]


def test_a_wait_without_a_signal_suspends_and_registers(bench: Bench):
    lease = bench.held()
    taken = take(bench, lease, "a", "b")

    assert (taken.suspended, taken.checkpoint, taken.lost) == (True, None, False)
    assert bench.run(lease.run_pk)["status"] == "suspended"
    assert bench.checkpoints(lease.run_pk)[0]["status"] == "pending"
    assert sorted(bench.sql("SELECT run_pk, seq, token FROM durable_signal_waiters")) == [
        (lease.run_pk, 0, "a"),
        (lease.run_pk, 0, "b"),
    ]


def test_a_wake_makes_a_suspended_run_due_and_goes(bench: Bench):
    lease, other = bench.held(), bench.held()
    take(bench, lease, "t")
    take(bench, other, "u")
    send(bench, "t", "1")

    assert serve(bench) == [lease.run_pk]
    assert bench.count("transport_messages") == 0
    assert [claim.lease.run_pk for claim in bench.claim()] == [lease.run_pk]


def test_a_wake_stamps_a_run_that_is_held(bench: Bench):
    lease = bench.held()
    take(bench, lease, "t")
    bench.set_run(lease.run_pk, wake_at_us=1)
    holder = bench.claim("you")[0].lease
    send(bench, "t", "1")

    assert serve(bench) == [lease.run_pk]
    assert bench.store.holds(holder)
    assert bench.run(lease.run_pk)["wake_requested_at_us"] is not None
    assert bench.store.end_turns([TurnEnd(lease=holder, status=RunStatus.SUSPENDED, wake_at_us=FAR_US)]) == [False]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "dead"])
def test_the_next_wake_takes_the_waits_of_ended_runs_with_it(bench: Bench, status):
    ended, open_run, elsewhere = bench.held(), bench.held(), bench.held()
    for lease, token in ((ended, "t"), (open_run, "t"), (elsewhere, "u")):
        take(bench, lease, token)
    for lease in (ended, elsewhere):
        bench.set_run(lease.run_pk, status=status, wake_at_us=None)
    send(bench, "t", "1")

    assert serve(bench) == [open_run.run_pk]
    assert sorted(bench.sql("SELECT run_pk, token FROM durable_signal_waiters")) == [
        (open_run.run_pk, "t"),
        (elsewhere.run_pk, "u"),
    ]


def test_a_wake_for_nobody_goes(bench: Bench):
    send(bench, "t", "1")

    assert serve(bench) == []
    assert bench.count("transport_messages") == 0
    assert bench.count("buffered_signals") == 1


def test_a_stamped_run_keeps_its_lease_instead_of_waiting(bench: Bench):
    lease = bench.held()
    bench.set_run(lease.run_pk, wake_requested_at_us=1)
    taken = take(bench, lease, "t")

    assert (taken.suspended, taken.checkpoint, taken.lost) == (False, None, False)
    assert bench.store.holds(lease)
    assert bench.count("signal_waiters") == 0


def test_a_signal_that_was_taken_already_is_the_same_again(bench: Bench):
    send(bench, "t", "1")
    send(bench, "t", "2")
    lease = bench.held()
    first, again = take(bench, lease, "t"), take(bench, lease, "t")

    assert again.checkpoint is not None
    assert again.checkpoint.output == first.checkpoint.output
    assert bench.sql("SELECT count(*) FROM durable_buffered_signals WHERE consumed_run_pk IS NULL") == [(1,)]


def test_a_wait_that_is_over_forgets_all_its_tokens(bench: Bench):
    lease = bench.held()
    take(bench, lease, "a", "b")
    bench.set_run(lease.run_pk, wake_at_us=1)
    holder = bench.claim()[0].lease
    send(bench, "b", "1")

    assert take(bench, holder, "a", "b").checkpoint is not None
    assert bench.count("signal_waiters") == 0


def timed_out(lease):
    return replace(waits(lease), status=CheckpointStatus.FAILED, error="{}")


def test_a_wait_whose_time_has_passed_fails_unless_a_signal_is_there(bench: Bench):
    lease, lucky = bench.held(), bench.held()
    failed = bench.store.take_signal(lease, ["t"], waits(lease), timed_out(lease))
    send(bench, "u", "1")
    taken = bench.store.take_signal(lucky, ["u"], waits(lucky), timed_out(lucky))

    assert failed.checkpoint is not None
    assert failed.checkpoint.status is CheckpointStatus.FAILED
    assert taken.checkpoint is not None
    assert taken.checkpoint.status is CheckpointStatus.COMPLETED
    assert bench.store.holds(lease)


def test_a_wait_that_timed_out_takes_no_later_signal(bench: Bench):
    lease = bench.held()
    bench.store.take_signal(lease, ["t"], waits(lease), timed_out(lease))
    send(bench, "t", "1")
    again = take(bench, lease, "t")

    assert again.checkpoint is not None
    assert again.checkpoint.status is CheckpointStatus.FAILED
    assert bench.sql("SELECT consumed_run_pk FROM durable_buffered_signals") == [(None,)]


@pytest.mark.parametrize("token", ["a b", "ж🎉", "'\"%s{}", "\\u0000"])
def test_tokens_come_back_as_they_were_sent(bench: Bench, token):
    send(bench, token, '{"k":"\\u0000"}')
    lease = bench.held()
    taken = take(bench, lease, token)

    assert taken.checkpoint is not None
    import json

    assert json.loads(taken.checkpoint.output) == {"signal": token, "payload": {"k": "\x00"}}
