"""A transaction that lasts longer than a lease costs no run its lease."""

import time
from typing import Any

import pytest

from durable import Context, workflow
from durable.models import WorkflowRun

LEASE_S = 0.6
pytestmark = pytest.mark.django_db


def take_two_leases() -> str:
    time.sleep(2 * LEASE_S)  # the situation: the store's transaction is open for two leases
    return "written"


def take_one_and_a_half() -> str:
    time.sleep(1.5 * LEASE_S)
    return "done"


@workflow(name="long.writing")
def writing(ctx: Context) -> Any:
    return ctx.transaction("write", take_two_leases)


@workflow(name="long.working")
def working(ctx: Context) -> Any:
    ctx.local_step("work", take_one_and_a_half)
    return ctx.local_step("work again", take_one_and_a_half)


def test_a_transaction_of_two_leases_commits_and_no_other_run_loses_its_lease(start_worker):
    start_worker(LEASE=LEASE_S)
    runs = [writing.start(), working.start(), writing.start()]

    assert [run.result("20s") for run in runs] == ["written", "done", "written"]
    rows = WorkflowRun.objects.filter(run_id__in=[run.id for run in runs])
    assert set(rows.values_list("recovery_attempts", flat=True)) == {0}
