"""How far the demo is and how it ended, read from the tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Sum

from durable.core.states import TERMINAL, RunStatus
from durable.models import WorkflowRun
from testproject.shop.models import Charge, ChargeAttempt, Order
from testproject.shop.orders import Outcome

OPEN = ChargeAttempt.Outcome.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Say how far the runs are.

    Attributes:
        ended: Runs that have ended.
        charging: Bodies of the charge step that have begun and not ended; those of a killed worker never end.
        waiting: Orders that wait for a person.
    """

    ended: int
    charging: int
    waiting: int


def read_progress(worker_pid: int) -> Progress:
    """Return how far the runs are; charges are those of one worker."""
    return Progress(
        ended=WorkflowRun.objects.filter(status__in=TERMINAL).count(),
        charging=ChargeAttempt.objects.filter(outcome=OPEN, worker=worker_pid).count(),
        waiting=Order.objects.filter(status=Order.Status.WAITING).count(),
    )


def count_charged_in_flight(worker_pid: int) -> int:
    """Return how many charges of a worker are in the ledger though their body has not ended."""
    in_flight = ChargeAttempt.objects.filter(outcome=OPEN, worker=worker_pid).values("step_id")
    return Charge.objects.filter(step_id__in=in_flight).count()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """Say how many orders ended so, and what they come to."""

    outcome: str
    orders: int
    total: Decimal


def read_outcomes() -> list[OutcomeRow]:
    """Return a row for each outcome, as the shop sees it; orders that are not closed come last."""
    rows = {
        row["status"]: OutcomeRow(outcome=row["status"], orders=row["orders"], total=row["sum"] or Decimal(0))
        for row in Order.objects.order_by().values("status").annotate(orders=Count("id"), sum=Sum("total"))
    }
    closed = [rows.pop(outcome.value) for outcome in Outcome if outcome.value in rows]
    return closed + list(rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Say how many runs there are by status."""

    by_status: Counter[str]

    @property
    def ended(self) -> int:
        """Return how many have ended."""
        return sum(count for status, count in self.by_status.items() if RunStatus(status) in TERMINAL)


def read_statuses() -> Statuses:
    """Return how many runs there are by status."""
    return Statuses(by_status=Counter(WorkflowRun.objects.values_list("status", flat=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeFacts:
    """Say how often cards were charged, and how often the body that does it ran.

    Attributes:
        charges: Lines of the ledger.
        amount: What they come to.
        charged_twice: Orders with more than one line.
        bodies: Executions of the body.
        ended: Executions that came to their end: charged, found charged, refused.
        unsaved: Those of them whose result was not stored, since their process was killed before.
        ran_twice: Executions beyond the first of the same attempt of the same step.
        killed: Executions that never ended.
        found: Executions that found their charge in the ledger and did not charge again.
        retried: Executions that the provider let down; the next attempt follows.
        refused: Executions that met an expired card.
    """

    charges: int
    amount: Decimal
    charged_twice: int
    bodies: int
    ended: int
    unsaved: int
    ran_twice: int
    killed: int
    found: int
    retried: int
    refused: int


def read_charge_facts() -> ChargeFacts:
    """Count the ledger and the log of the attempts."""
    ledger = Counter(Charge.objects.values_list("order_id", flat=True))
    log = list(ChargeAttempt.objects.values_list("step_id", "attempt", "outcome"))
    outcomes = Counter(outcome for _, _, outcome in log)
    kinds = ChargeAttempt.Outcome
    ended = [step_id for step_id, _, outcome in log if outcome in {kinds.CHARGED, kinds.FOUND, kinds.REFUSED}]
    return ChargeFacts(
        charges=ledger.total(),
        amount=sum(Charge.objects.values_list("amount", flat=True), Decimal(0)),
        charged_twice=sum(count > 1 for count in ledger.values()),
        bodies=len(log),
        ended=len(ended),
        unsaved=len(ended) - len(set(ended)),
        ran_twice=len(log) - len({(step_id, attempt) for step_id, attempt, _ in log}),
        killed=outcomes[kinds.OPEN],
        found=outcomes[kinds.FOUND],
        retried=outcomes[kinds.UNAVAILABLE] + outcomes[kinds.ANSWER_LOST],
        refused=outcomes[kinds.REFUSED],
    )
