"""A fleet in which every worker drives one pool only."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from durable import Context, api, workflow
from durable.models import TransportMessage
from tests.engine.workers import WorkerThread, make_engine
from tests.rig.patience import wait_until


@workflow(name="namespaces.waiting")
def waiting(ctx: Context, token: str) -> list[Any]:
    return list(ctx.wait_for_signal(token))


def start_in_acme(token: str) -> Any:
    """Start a run in a pool and wait until it waits; a worker of the pool must be there."""
    run = waiting.options(namespace="acme").start(token)
    wait_until(lambda: run.status == "suspended", what="the run to wait")
    return run


def test_a_signal_reaches_a_run_of_a_pool(token, start_worker):
    start_worker(NAMESPACE="acme")
    run = start_in_acme(token)
    api.signal(token, 1)

    assert run.result("10s") == [token, 1]


def test_a_wake_is_served_by_a_worker_of_any_pool(token, start_worker):
    with WorkerThread(make_engine(NAMESPACE="acme")):
        run = start_in_acme(token)
    api.signal(token, 1)
    with WorkerThread(make_engine(NAMESPACE="elsewhere")):
        wait_until(lambda: not TransportMessage.objects.filter(body=token).exists(), what="the wake to be served")

    assert run.status == "suspended"

    start_worker(NAMESPACE="acme")

    assert run.result("10s") == [token, 1]


def test_a_cancel_in_a_transaction_is_served_by_the_pool_of_its_run(token, start_worker):
    start_worker(NAMESPACE="acme")
    run = start_in_acme(token)
    with transaction.atomic():
        run.cancel()

    wait_until(lambda: run.status == "cancelled", what="the cancel to be served")
    wait_until(lambda: not TransportMessage.objects.filter(body=run.id).exists(), what="the request to go")
