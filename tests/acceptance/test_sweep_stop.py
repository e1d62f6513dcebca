"""SIGSTOP at every point until the lease has run out, then SIGCONT: the zombie changes nothing and stops."""

import pytest

from tests.acceptance.conftest import IDLE_LIMIT_S, LEASE_S, Sweep
from tests.acceptance.judging import Limits, Say, Verdicts, record_points

pytestmark = [pytest.mark.sweep, pytest.mark.django_db(transaction=True)]


@pytest.mark.timeout(300)
def test_a_worker_that_wakes_after_another_has_taken_over_changes_no_row(sweep: Sweep, say: Say):
    cases = [{"what": "over", "point": point} for point in record_points(sweep, say)]

    Verdicts(sweep, "taken_over", lambda result: Limits(seconds=LEASE_S + IDLE_LIMIT_S + 5.0), say).judge(cases)


@pytest.mark.timeout(300)
def test_a_worker_that_wakes_with_nobody_there_writes_nothing_under_its_old_lease(sweep: Sweep, say: Say):
    cases = [{"what": "alone", "point": point} for point in record_points(sweep, say)]

    Verdicts(sweep, "stopped_alone", lambda result: Limits(seconds=LEASE_S + 5.0), say).judge(cases)
