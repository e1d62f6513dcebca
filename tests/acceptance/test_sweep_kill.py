"""SIGKILL before and after every call of store and transport: nothing is lost, nothing committed runs again."""

import pytest

from tests.acceptance.conftest import LEASE_S, Sweep
from tests.acceptance.judging import Say, judge, record_points

END_LIMIT_S = LEASE_S + 5.0
MOST_EXTRA_ATTEMPTS = 1

pytestmark = [pytest.mark.sweep, pytest.mark.django_db(transaction=True)]


@pytest.mark.timeout(300)
def test_a_worker_killed_at_any_point_costs_each_step_at_most_one_attempt(sweep: Sweep, say: Say):
    points = record_points(sweep, say)
    cases = [{"what": "kill", "point": point} for point in points]

    results = sweep("killed", cases)

    judge(sweep, "killed", results, END_LIMIT_S, MOST_EXTRA_ATTEMPTS, say)
