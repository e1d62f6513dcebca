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
