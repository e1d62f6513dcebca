"""Every call of the store fails once, before it is made or when its answer is on its way: nobody notices."""

import pytest

from tests.acceptance.conftest import LEASE_S, Sweep
from tests.acceptance.judging import Limits, Result, Say, Verdicts, record_points

ACTIONS = {"before": "raise:TransientTrouble", "after": "raise-after"}
END_LIMIT_S = LEASE_S + 5.0

pytestmark = [pytest.mark.sweep, pytest.mark.django_db(transaction=True)]


def limits(result: Result) -> Limits:
    """Trouble inside a transaction rolls its body back, which may be a user's and then runs again."""
    inside = ".commit#" in result["case"]["point"]
    return Limits(seconds=END_LIMIT_S, extra=1 if inside else 0, recoveries=0)


@pytest.mark.timeout(300)
def test_a_call_that_fails_costs_no_attempt_and_no_recovery(sweep: Sweep, say: Say):
    points = [point for point in record_points(sweep, say) if not point.startswith("transport.")]
    cases = [{"what": "trouble", "point": point, "action": ACTIONS[point.rpartition(":")[2]]} for point in points]

    Verdicts(sweep, "troubled", limits, say).judge(cases)
