"""``manage.py durable_cancel``: cancels runs by id."""

from __future__ import annotations

from durable import api
from durable.management.steering import SteeringCommand


class Command(SteeringCommand):
    """Cancels runs."""

    help = "Ends open runs as cancelled. Ends with 1 when not every run could be cancelled."
    past = "cancelled"

    def steer(self, run_id: str, alias: str) -> None:
        """Cancel one run."""
        api.cancel(run_id, using=alias)
