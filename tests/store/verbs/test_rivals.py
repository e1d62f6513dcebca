"""Verbs of instances that meet: several connections on one database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from durable.core.states import CheckpointStatus, RunStatus
from durable.store.django_session import open_session
from durable.store.records import NewSignal, TurnEnd
from durable.store.store import Store
from tests.rig.kept import empty_tables
from tests.rig.patience import wait_until
from tests.store.verbs.bench import FAR_US, LEASE_US, Bench, local, remote, result


@pytest.fixture
def rivals() -> Any:
    """Return a bench on Django's seam; connections of threads end with them."""
    empty_tables()
    return Bench(Store(open_session("default")), None)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make calls at the same time, each with a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def meet(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(meet, calls))


def without_waiting(call: Callable[[], Any]) -> Any:
    """Make a call beside the open transaction of this thread; it fails where it would wait for a lock."""

    def hurry() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")
        return call()

    return at_once(hurry)[0]


def test_claims_are_disjoint(rivals: Bench):
    pks = {rivals.start() for _ in range(40)}
    claims = at_once(*(lambda owner=owner: rivals.claim(owner, limit=20) for owner in ("a", "b", "c")))
    taken = [claim.lease.run_pk for each in claims for claim in each]

    assert len(taken) == len(set(taken))
    assert set(taken) <= pks
    rest = rivals.claim("d")
    assert {*taken, *(claim.lease.run_pk for claim in rest)} == pks


def test_takes_are_disjoint(rivals: Bench):
    ids = {rivals.message() for _ in range(30)}
    takes = at_once(
        *(
            lambda owner=owner: rivals.store.take_messages(
                owner, ["tasks:a"], namespace=None, lease_us=LEASE_US, limit=10
            )
            for owner in ("a", "b", "c")
        )
    )
    taken = [message.id for each in takes for message in each]

    assert len(taken) == len(set(taken))
    assert set(taken) <= ids


def test_of_many_that_start_one_id_one_does(rivals: Bench):
    started = at_once(*(lambda: rivals.start("x") for _ in range(6)))

    assert len(set(started)) == 1
    assert rivals.count("workflow_runs") == 1


@pytest.mark.parametrize("_", range(5))
def test_a_cancel_and_an_end_race_to_one_end(rivals: Bench, _):
    lease = rivals.held()
    cancelled, ended = at_once(
        lambda: rivals.store.cancel_run(lease.run_id, "{}"),
        lambda: rivals.store.end_turns([TurnEnd(lease=lease, status=RunStatus.COMPLETED, output="1")])[0],
    )

    assert cancelled is not ended
    assert rivals.run(lease.run_pk)["status"] == ("cancelled" if cancelled else "completed")


@pytest.mark.parametrize("_", range(5))
def test_of_two_results_one_is_written(rivals: Bench, _):
    lease = rivals.held()
    end = TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=FAR_US, checkpoints=(remote(lease),))
    rivals.store.end_turns([end])
    settled = at_once(
        *(
            lambda owner=owner: rivals.store.settle_steps(
                owner, [result(lease, output=f'"{owner}"', claim=True)], lease_us=LEASE_US
            )[0]
            for owner in ("a", "b")
        )
    )

    assert sorted(each.written for each in settled) == [False, True]
    assert sum(each.claimed is not None for each in settled) == 1


@pytest.mark.parametrize("_", range(5))
def test_a_wake_meets_a_release_and_is_not_lost(rivals: Bench, _):
    lease = rivals.held()
    rivals.store.record(lease, [remote(lease)])
    settled, released = at_once(
        lambda: rivals.store.settle_steps("you", [result(lease)], lease_us=LEASE_US)[0],
        lambda: rivals.store.end_turns([TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=FAR_US)])[0],
    )
    row = rivals.run(lease.run_pk)

    assert settled.written
    if released:
        assert row["wake_at_us"] < FAR_US
    else:
        assert row["wake_requested_at_us"] is not None
        assert row["status"] == "running"


@pytest.mark.parametrize("_", range(5))
def test_of_two_retries_one_does(rivals: Bench, _):
    lease = rivals.held()
    rivals.store.end_turns([TurnEnd(lease=lease, status=RunStatus.FAILED, error="{}")])
    done = at_once(*(lambda: rivals.store.retry_run(lease.run_id, generation=0, failed_seq=None) for _ in range(2)))

    assert sorted(done) == [False, True]
    assert rivals.run(lease.run_pk)["generation"] == 1


@pytest.mark.postgres
def test_renewal_leaves_locked_rows_out(rivals: Bench):
    locked, free = rivals.held(), rivals.held()
    pks = [locked.run_pk, free.run_pk]
    with transaction.atomic():
        rivals.sql("SELECT 1 FROM durable_workflow_runs WHERE id = :pk FOR UPDATE", pk=locked.run_pk)
        renewed, standing = at_once(
            lambda: rivals.store.renew_leases("me", pks, lease_us=LEASE_US),
            lambda: rivals.store.standing_leases("me", pks),
        )

    assert [each.run_pk for each in renewed] == [free.run_pk]
    assert standing == {locked.run_pk: locked.epoch, free.run_pk: free.epoch}


@pytest.mark.postgres
def test_a_beat_passes_over_a_locked_checkpoint(rivals: Bench):
    lease = rivals.held()
    rivals.store.record(lease, [remote(lease)])
    with transaction.atomic():
        rivals.sql("SELECT 1 FROM durable_step_checkpoints WHERE run_pk = :pk FOR UPDATE", pk=lease.run_pk)
        stored = without_waiting(lambda: rivals.store.record_beat("me", lease.run_id, 0, progress=None))

    assert not stored
    assert rivals.store.record_beat("me", lease.run_id, 0, progress=None)


@pytest.mark.postgres
def test_showing_a_step_passes_over_a_locked_run(rivals: Bench):
    lease = rivals.held()
    running = local(lease, status=CheckpointStatus.RUNNING, output=None)
    with transaction.atomic():
        rivals.sql("SELECT 1 FROM durable_workflow_runs WHERE id = :pk FOR UPDATE", pk=lease.run_pk)
        shown = without_waiting(lambda: rivals.store.note_running(lease, running))

    assert not shown
    assert rivals.store.note_running(lease, running)


@pytest.mark.postgres
def test_a_claim_leaves_locked_rows_out(rivals: Bench):
    first, second = rivals.start(), rivals.start()
    with transaction.atomic():
        rivals.sql("SELECT 1 FROM durable_workflow_runs WHERE id = :pk FOR UPDATE", pk=first)
        claims = at_once(rivals.claim)[0]

    assert [claim.lease.run_pk for claim in claims] == [second]


@pytest.mark.postgres
def test_a_write_of_a_holder_waits_for_who_takes_its_run_away(rivals: Bench):
    lease = rivals.held()

    def write() -> int:
        try:
            return rivals.store.record(lease, [local(lease)])
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            rivals.store.cancel_run(lease.run_id, "{}")
            writing = pool.submit(write)
            wait_until(is_somebody_waiting, what="the write to wait for the lock")
            assert not writing.done()
        written = writing.result(10)

    assert written == 0
    assert rivals.checkpoints(lease.run_pk) == []


def is_somebody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


@pytest.mark.postgres  # on SQLite an open transaction holds the one lock there is
def test_a_signal_in_an_open_transaction_locks_no_run(rivals: Bench):
    lease = rivals.held()
    with transaction.atomic():
        rivals.store.send_signal(NewSignal(token="t", key="k", payload="1"))
        written = at_once(lambda: rivals.store.record(lease, [local(lease)]))[0]

    assert written == 1
