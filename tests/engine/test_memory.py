"""What a worker remembers of runs does not grow with their number."""

from __future__ import annotations

from durable import Context, workflow
from durable.models import WorkflowRun
from tests.rig.patience import wait_until


@workflow(name="memory.sleepy")
def sleepy(ctx: Context) -> int:
    ctx.sleep("1ms")
    return 1


def test_a_worker_forgets_where_the_bodies_of_ended_runs_were_parked(start_worker):
    bodies = start_worker().worker.bodies
    runs = [sleepy.start() for _ in range(30)]

    assert [run.result("20s") for run in runs] == [1] * 30
    wait_until(bodies.is_idle, what="the last turn to end")
    keys = WorkflowRun.objects.filter(run_id__in=[run.id for run in runs]).values_list("id", flat=True)
    assert not any(map(bodies.is_parked, keys))
