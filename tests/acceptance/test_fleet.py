"""A fleet whose processes are killed again and again loses no run."""

import json
from collections import Counter
from typing import Any

import pytest

from durable.authoring.refs import Workflow
from durable.core.states import TERMINAL
from durable.engine.instance import get_engine
from durable.models import WorkflowRun
from tests.acceptance.conftest import SETTINGS
from tests.acceptance.judging import Say
from tests.app.workflows import dispatched, gathering, mapping, one_local_step, sleepy
from tests.conftest import SpawnWorker
from tests.rig.patience import wait_until

RUNS_OF_A_KIND_PER_KILL = 5
KILLS = 20
LEAST_ENDED = 3
"""So many runs have ended since the last kill when the next one falls: the others are on their way."""
KINDS: dict[Workflow[..., Any], tuple[Any, Any]] = {
    one_local_step: (41, 42),
    dispatched: (1, 8),
    gathering: ([1, 2, 3], [2, 4, 6]),
    mapping: ([1, 2, 3, 4], [2, 4, 6, 8]),
    sleepy: (0.05, "awake"),
}
"""Workflows with their input and what they return for it."""
RUNS = KILLS * RUNS_OF_A_KIND_PER_KILL * len(KINDS)

pytestmark = [pytest.mark.sweep, pytest.mark.django_db(transaction=True)]


@pytest.mark.timeout(180)
def test_twenty_kills_of_a_fleet_of_two_leave_500_runs_completed_and_no_orphan(spawn_worker: SpawnWorker, say: Say):
    env = {"DURABLE_TEST_SETTINGS": json.dumps(SETTINGS)}
    store = get_engine().store
    orphans: Counter[str] = Counter()

    def ended() -> int:
        orphans.update(store.find_orphans())
        return WorkflowRun.objects.filter(status__in=TERMINAL).count()

    fleet = [spawn_worker(env=env), spawn_worker(env=env)]
    for kill in range(KILLS):
        victim = fleet.pop(0)
        victim.wait_for_output("Ready")
        due = ended() + LEAST_ENDED

        def has_begun(due: int = due) -> bool:
            return ended() >= due

        for index in range(RUNS_OF_A_KIND_PER_KILL):
            for workflow, (value, _) in KINDS.items():
                workflow.start_as(f"{workflow.name}:{kill}:{index}", value)
        wait_until(has_begun, timeout=60, what=f"{due} runs to end before kill {kill + 1}")
        victim.sigkill()
        fleet.append(spawn_worker(env=env))
    wait_until(lambda: ended() == RUNS, timeout=60, what="all runs to end")

    runs = list(WorkflowRun.objects.values_list("workflow", "status", "output", "recovery_attempts"))
    expected = {workflow.name: value for workflow, (_, value) in KINDS.items()}
    say(f"{sum(attempts for *_, attempts in runs)} executions died with their process in {KILLS} kills")
    assert Counter(status for _, status, *_ in runs) == {"completed": RUNS}
    assert [name for name, _, output, _ in runs if json.loads(output or "null") != expected[name]] == []
    assert not orphans
