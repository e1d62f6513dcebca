"""A result that is settled while its run, put back by recovery, is claimed: the new holder hears of it."""

import threading
from typing import Any

import pytest
from django.db import connection, connections

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.store.django_session import open_session
from durable.store.records import CheckpointWrite, Interest, NewRun, Settlement, TurnEnd
from durable.store.store import Store
from tests.rig.patience import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

INTEREST = Interest(workflows=(("w", "1"),))
LEASE_US = 60_000_000
FAR_AWAY_US = 2**52


def claim(store: Store, owner: str) -> Any:
    found = store.claim_runs(owner, INTEREST, lease_us=LEASE_US, limit=1)
    return found[0].lease if found else None


def recovered_run(store: Store) -> int:
    """Leave a pending run that was recovered while it waited for a dispatched step."""
    store.start_runs([NewRun(run_id="run", workflow="w", version="1", input="1", input_shape="single")])
    lease = claim(store, "dead")
    step = CheckpointWrite(
        run_pk=lease.run_pk,
        seq=0,
        name="step",
        kind=CheckpointKind.REMOTE,
        status=CheckpointStatus.PENDING,
        attempts=1,
        enqueued_at_us=1,
    )
    assert store.record(lease, [step]) == 1
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_workflow_runs SET lease_expires_at_us = 1")
    assert [each.status for each in store.recover_runs(max_attempts=1, limit=1, error="{}")] == ["pending"]
    return int(lease.run_pk)


def is_waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_a_result_that_meets_the_claim_of_a_recovered_run_is_seen(transactional_db: None):
    store = Store(open_session("default"))
    run_pk = recovered_run(store)
    result = Settlement(run_id="run", seq=0, attempt=1, status=CheckpointStatus.COMPLETED, output="2")

    def settle() -> None:
        store.settle_steps("worker", [result], lease_us=LEASE_US)
        connections.close_all()

    blocker = connections.create_connection("default")
    settling = threading.Thread(target=settle)
    try:
        with blocker.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM durable_step_checkpoints WHERE run_pk = %s FOR UPDATE", [run_pk])
            settling.start()
            wait_until(is_waiting_for_a_lock, what="the settlement to stand in its middle")
            lease = claim(store, "next")
            if lease is not None:
                store.read_history_from(run_pk, 0)
                store.end_turns([TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=FAR_AWAY_US)])
            cursor.execute("COMMIT")
    finally:
        blocker.close()
        settling.join()

    assert store.read_history_from(run_pk, 0)[0].status is CheckpointStatus.COMPLETED
    assert claim(store, "anybody") is not None
