"""SIGKILL before and after every call of store and transport: nothing is lost, nothing committed runs again."""

import pytest

from tests.acceptance.conftest import LEASE_S, Sweep
from tests.acceptance.judging import Limits, Say, Verdicts, record_points

LIMITS = Limits(seconds=LEASE_S + 5.0, extra=1)

pytestmark = [pytest.mark.sweep, pytest.mark.django_db(transaction=True)]


@pytest.mark.timeout(300)
def test_a_worker_killed_at_any_point_costs_each_step_at_most_one_attempt(sweep: Sweep, say: Say):
    points = record_points(sweep, say, lone_commits=True)
    cases = [{"what": "kill", "point": point} for point in points]

    Verdicts(sweep, "killed", lambda result: LIMITS, say).judge(cases)


@pytest.mark.timeout(300)
def test_a_second_kill_in_the_middle_of_recovery_costs_at_most_one_attempt_more(sweep: Sweep, say: Say):
    held = [
        "store.record#1:after",
        "store.settle_steps#1:before",
        "store.hold_turn#1:after",
        "store.record_with#1:before",
    ]
    recovery = ["store.recover_runs", "store.recover_runs.commit", "store.release_expired_holds", "store.claim_runs"]
    cases = [
        {"what": "twice", "point": point, "then": f"{verb}#1:{moment}"}
        for point in held
        for verb in recovery
        for moment in ("before", "after")
    ]

    Verdicts(sweep, "killed", lambda result: Limits(seconds=LIMITS.seconds, extra=2), say).judge(cases)
