"""Compare what was ordered with what happened: the order file, the store's rows and the shop's ledger.

It reads tables only, knows nothing of how the engine works, and trusts no status that it can work out for itself.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from durable.core.states import TERMINAL, CheckpointStatus, RunStatus
from durable.models import BufferedSignal, StepCheckpoint, TransportMessage, WorkflowRun
from testproject.shop.models import Charge, ChargeAttempt, Order, Product, Shipment
from testproject.shop.orders import Outcome, Purchase, Stocked, read_orders, read_products
from testproject.shop.provider import EXPIRED_CARD
from testproject.shop.workflows import fulfil

DECISION = r"^(approve|reject):[0-9]+$"


@dataclass(kw_only=True)
class Found:
    """Hold everything that belongs to one order."""

    runs: list[WorkflowRun] = field(default_factory=list)
    checkpoints: list[StepCheckpoint] = field(default_factory=list)
    signals: list[BufferedSignal] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    attempts: list[ChargeAttempt] = field(default_factory=list)
    shipments: list[Shipment] = field(default_factory=list)
    order: Order | None = None


def find_differences(orders_file: Path | None = None) -> list[str]:
    """Return every difference between the order file, the store and the ledger; none when all is well."""
    lines = read_orders(orders_file) if orders_file else read_orders()
    purchases: dict[int, Purchase] = {}
    for line in lines:
        if line.purchase is not None:
            purchases.setdefault(line.purchase.id, line.purchase)
    found = _collect()
    differences = [f"order {each}: it is not in the file" for each in sorted(found.keys() - purchases.keys())]
    for purchase in purchases.values():
        differences += [f"order {purchase.id}: {text}" for text in _compare(purchase, found[purchase.id])]
    differences += _compare_stock(read_products(), purchases.values())
    differences += _find_strays()
    return differences


def _collect() -> defaultdict[int, Found]:
    found: defaultdict[int, Found] = defaultdict(Found)
    number_of: dict[int, int] = {}
    for run in WorkflowRun.objects.filter(workflow=fulfil.name):
        number_of[run.id] = int(json.loads(run.input)["id"])
        found[number_of[run.id]].runs.append(run)
    for checkpoint in StepCheckpoint.objects.filter(run_id__in=number_of).order_by("run_id", "seq"):
        found[number_of[checkpoint.run_id]].checkpoints.append(checkpoint)
    for signal in BufferedSignal.objects.filter(token__regex=DECISION).order_by("id"):
        found[int(signal.token.partition(":")[2])].signals.append(signal)
    for order in Order.objects.all():
        found[order.id].order = order
    for charge in Charge.objects.all():
        found[charge.order_id].charges.append(charge)
    for attempt in ChargeAttempt.objects.all():
        found[attempt.order_id].attempts.append(attempt)
    for shipment in Shipment.objects.all():
        found[shipment.order_id].shipments.append(shipment)
    return found


def _compare(purchase: Purchase, found: Found) -> Iterator[str]:
    if len(found.runs) != 1:
        yield f"{len(found.runs)} runs instead of one"
        return
    run = found.runs[0]
    if run.run_id != purchase.run_id:
        yield f"its run is called {run.run_id!r}"
    if run.status not in TERMINAL:
        yield f"its run has not ended: it is {run.status}"
        return
    if run.status != RunStatus.COMPLETED:
        yield f"its run is {run.status}"
        return
    output = json.loads(run.output or "null")
    if output not in list(Outcome):
        yield f"its run gave {output!r}"
        return
    outcome = Outcome(output)
    yield from _compare_outcome(purchase, outcome, found)
    yield from _compare_order(purchase, outcome, found.order)
    yield from _compare_history(purchase, outcome, run, found.checkpoints)
    yield from _compare_ledger(purchase, outcome, run, found)
    yield from _compare_shipments(purchase, outcome, found.shipments)


def _compare_outcome(purchase: Purchase, outcome: Outcome, found: Found) -> Iterator[str]:
    """Hold the outcome against the file and what people decided."""
    verbs = [signal.token.partition(":")[0] for signal in found.signals if signal.consumed_run == found.runs[0].id]
    if len(verbs) != len(found.signals):
        yield "a decision was sent that nobody took"
    if outcome is Outcome.SOLD_OUT:
        return
    if len(verbs) != int(purchase.needs_approval):
        yield f"{len(verbs)} decisions instead of {int(purchase.needs_approval)}"
    elif (outcome is Outcome.REJECTED) != (verbs == ["reject"]):
        yield f"it is {outcome}, the decision was {' '.join(verbs) or 'not asked for'}"
    if outcome is not Outcome.REJECTED and (outcome is Outcome.CARD_REFUSED) != (purchase.card == EXPIRED_CARD):
        yield f"it is {outcome}, the card was {purchase.card!r}"


def _compare_order(purchase: Purchase, outcome: Outcome, order: Order | None) -> Iterator[str]:
    if order is None:
        yield "the shop does not have it"
        return
    pairs = {
        "customer": (purchase.customer, order.customer),
        "address": (purchase.address, order.address),
        "product": (purchase.sku, order.product_id),
        "quantity": (purchase.quantity, order.quantity),
        "total": (purchase.total, order.total),
        "note": (purchase.note, order.note),
        "status": (outcome.value, order.status),
    }
    for name, (expected, is_value) in pairs.items():
        if expected != is_value:
            yield f"its {name} is {is_value!r} instead of {expected!r}"


def _compare_history(
    purchase: Purchase, outcome: Outcome, run: WorkflowRun, checkpoints: Sequence[StepCheckpoint]
) -> Iterator[str]:
    """Hold what the run did, step by step, against what its outcome takes."""
    names = ["signal" if each.kind == "signal" else each.name.rpartition(".")[2] for each in checkpoints]
    expected = _expected_names(purchase, outcome)
    if names != expected:
        yield f"its run did {' '.join(names) or 'nothing'} instead of {' '.join(expected)}"
    if [checkpoint.seq for checkpoint in checkpoints] != list(range(len(checkpoints))):
        yield "its checkpoints have gaps"
    for checkpoint in checkpoints:
        is_refusal = outcome is Outcome.CARD_REFUSED and checkpoint.kind == "remote"
        status = CheckpointStatus.FAILED if is_refusal else CheckpointStatus.COMPLETED
        if checkpoint.status != status:
            yield f"its step {run.run_id}:{checkpoint.seq} is {checkpoint.status} instead of {status}"


def _expected_names(purchase: Purchase, outcome: Outcome) -> list[str]:
    asked = ["ask", "signal"] if purchase.needs_approval else []
    charged = ["charge_card"] if purchase.total else []
    match outcome:
        case Outcome.SOLD_OUT:
            return ["reserve"]
        case Outcome.REJECTED:
            return ["reserve", *asked, "release"]
        case Outcome.CARD_REFUSED:
            return ["reserve", *asked, *charged, "release"]
        case Outcome.SHIPPED:
            return ["reserve", *asked, *charged, "uuid", "ship"]


def _compare_ledger(purchase: Purchase, outcome: Outcome, run: WorkflowRun, found: Found) -> Iterator[str]:
    is_due = outcome is Outcome.SHIPPED and purchase.total > 0
    if len(found.charges) != int(is_due):
        yield f"{len(found.charges)} charges instead of {int(is_due)}"
    steps = [each for each in found.checkpoints if each.kind == "remote"]
    ids = {f"{run.run_id}:{each.seq}" for each in steps}
    for charge in found.charges:
        if charge.amount != purchase.total:
            yield f"{charge.amount} was charged instead of {purchase.total}"
        if charge.step_id not in ids:
            yield f"the charge belongs to {charge.step_id!r}, which is no step of its run"
        receipts = {Decimal(json.loads(each.output)["amount"]) for each in steps if each.output}
        if receipts != {charge.amount}:
            yield "the receipt in the store differs from the ledger"
    if found.charges and not found.attempts:
        yield "it was charged without an attempt"


def _compare_shipments(purchase: Purchase, outcome: Outcome, shipments: Sequence[Shipment]) -> Iterator[str]:
    expected = int(outcome is Outcome.SHIPPED)
    if len(shipments) != expected:
        yield f"{len(shipments)} parcels instead of {expected}"
    for shipment in shipments:
        if shipment.quantity != purchase.quantity:
            yield f"{shipment.quantity} pieces were shipped instead of {purchase.quantity}"


def _compare_stock(stocked: Iterable[Stocked], purchases: Iterable[Purchase]) -> Iterator[str]:
    """Hold the shelf against the parcels; sold out may only be what was ordered more often than it was there."""
    shipped: Counter[str] = Counter()
    for sku, quantity in Shipment.objects.values_list("order__product_id", "quantity"):
        shipped[sku] += quantity
    ordered: Counter[str] = Counter()
    for purchase in purchases:
        ordered[purchase.sku] += purchase.quantity
    missing = set(Order.objects.filter(status=Order.Status.SOLD_OUT).values_list("product_id", flat=True))
    left = dict(Product.objects.values_list("sku", "stock"))
    for each in stocked:
        expected = each.stock - shipped[each.sku]
        if left.get(each.sku) != expected:
            yield f"product {each.sku}: {left.get(each.sku)} left instead of {expected}"
        if each.sku in missing and ordered[each.sku] <= each.stock:
            yield f"product {each.sku}: sold out, though there was enough"


def _find_strays() -> Iterator[str]:
    """Find work that is left though every run has ended."""
    tasks = TransportMessage.objects.filter(kind="task").count()
    if tasks:
        yield f"{tasks} steps are still queued"
