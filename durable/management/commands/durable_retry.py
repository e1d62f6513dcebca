"""``manage.py durable_retry``: retries runs by id."""

from __future__ import annotations

from durable import api
from durable.management.steering import SteeringCommand


class Command(SteeringCommand):
    """Retries runs."""

    help = (
        "Puts failed, dead or cancelled runs back in the queue; what had completed is kept. "
        "Ends with 1 when not every run could be retried."
    )
    past = "retried"

    def steer(self, run_id: str, alias: str) -> None:
        """Retry one run."""
        api.retry(run_id, using=alias)
