"""What the shop does for an order: writes in the store's transaction, and one call to the outside world."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import F

from durable import FatalError, current_step, step
from testproject.shop.models import Charge, ChargeAttempt, Order, Product, Shipment
from testproject.shop.orders import Outcome, Purchase
from testproject.shop.provider import EXPIRED_CARD, ProviderError, weather_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Hold what the ledger says about a charge."""

    step_id: str
    amount: Decimal
    charged_at: datetime


def reserve_stock(purchase: Purchase) -> bool:
    """Take the goods off the shelf; tell whether there were enough."""
    enough = Product.objects.filter(sku=purchase.sku, stock__gte=purchase.quantity)
    if enough.update(stock=F("stock") - purchase.quantity):
        return True
    close_order(purchase.id, Outcome.SOLD_OUT)
    return False


def release_stock(purchase: Purchase, outcome: Outcome) -> None:
    """Put the goods back and close the order."""
    Product.objects.filter(sku=purchase.sku).update(stock=F("stock") + purchase.quantity)
    close_order(purchase.id, outcome)


def ask_for_approval(order_id: int) -> None:
    """Put the order on the list of those that a person must decide about."""
    Order.objects.filter(id=order_id).update(status=Order.Status.WAITING)


def ship(purchase: Purchase, tracking: UUID) -> None:
    """Send the parcel and close the order."""
    Shipment.objects.create(order_id=purchase.id, tracking=tracking, quantity=purchase.quantity)
    close_order(purchase.id, Outcome.SHIPPED)


def close_order(order_id: int, outcome: Outcome) -> None:
    """Note how the order ended."""
    Order.objects.filter(id=order_id).update(status=outcome.value)


@step(retries=6, backoff="exponential", backoff_base="100ms", backoff_max="1s")
def charge_card(order_id: int, amount: Decimal, card: str) -> Receipt:
    """Charge the card, once however often this runs: the ledger takes the step id as its idempotency key."""
    this = current_step()
    log = ChargeAttempt.objects.create(
        step_id=this.step_id, attempt=this.attempt, order_id=order_id, worker=os.getpid()
    )
    weather = weather_of(order_id, this.attempt)
    time.sleep(weather.there_s)
    if card == EXPIRED_CARD:
        end_attempt(log, ChargeAttempt.Outcome.REFUSED)
        raise FatalError("The card has expired.", code="card_refused")
    if weather.is_unavailable:
        end_attempt(log, ChargeAttempt.Outcome.UNAVAILABLE)
        raise ProviderError("The payment provider is not available.")
    charge, is_new = Charge.objects.get_or_create(
        step_id=this.step_id, defaults={"order_id": order_id, "amount": amount}
    )
    time.sleep(weather.back_s)
    if weather.loses_answer:
        end_attempt(log, ChargeAttempt.Outcome.ANSWER_LOST)
        raise ProviderError("The payment provider did not answer in time.")
    end_attempt(log, ChargeAttempt.Outcome.CHARGED if is_new else ChargeAttempt.Outcome.FOUND)
    return Receipt(step_id=charge.step_id, amount=charge.amount, charged_at=charge.charged_at)


def end_attempt(log: ChargeAttempt, outcome: ChargeAttempt.Outcome) -> None:
    """Note how this execution of the body ended."""
    log.outcome = outcome
    log.save(update_fields=["outcome"])
