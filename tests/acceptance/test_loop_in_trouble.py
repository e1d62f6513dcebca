"""What the loop of a worker has taken is served, also when the database fails in the middle."""

import json

import pytest
from django.db import transaction

from durable.models import TransportMessage
from tests.acceptance.conftest import SETTINGS
from tests.app.workflows import patient, sleepy
from tests.conftest import SpawnWorker
from tests.rig.patience import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def environment(plan: str) -> dict[str, str]:
    return {"DURABLE_TEST_SETTINGS": json.dumps(SETTINGS), "DURABLE_FAILPOINTS": plan}


def test_a_cancellation_is_served_although_the_first_try_fails(spawn_worker: SpawnWorker):
    run = patient.start("never")
    worker = spawn_worker(env=environment("store.delete_messages#1:before=raise:TransientTrouble"))
    wait_until(lambda: run.status == "suspended", what="the run to wait")

    with transaction.atomic():
        run.cancel()

    wait_until(lambda: run.status == "cancelled", what="the run to be cancelled")
    wait_until(lambda: not TransportMessage.objects.exists(), what="the request to be gone")
    assert worker.is_alive()


def test_a_wake_is_served_although_the_first_try_fails(spawn_worker: SpawnWorker):
    run = patient.start("token")
    spawn_worker(env=environment("store.serve_wakes#1:before=raise:TransientTrouble"))
    wait_until(lambda: run.status == "suspended", what="the run to wait")

    run.signal("token", 1)

    assert run.result(timeout="10s") == ["token", 1]


def test_a_worker_outlives_the_loss_of_leases_that_it_had_just_taken(spawn_worker: SpawnWorker):
    run = sleepy.start(0.5)
    first = spawn_worker(env=environment(""))
    wait_until(lambda: run.status == "suspended", what="the run to sleep")
    first.sigkill()

    no_renewal = ";".join(f"store.renew_leases#{number}:before=sleep:2" for number in range(1, 3))
    second = spawn_worker(env=environment(f"store.read_inputs#1:before=sleep:1.5,raise:TransientTrouble;{no_renewal}"))

    assert run.result(timeout="20s") == "awake"
    assert second.is_alive()
