"""How the shop fulfils an order, from the shelf to the parcel."""

from __future__ import annotations

from durable import Context, StepFailed, errors, workflow
from testproject.shop import steps
from testproject.shop.orders import Decision, Outcome, Purchase


@workflow(tags=["shop"])
def fulfil(ctx: Context, order: Purchase) -> Outcome:
    """Reserve, have a person look at expensive orders, charge, ship; put the goods back where it ends early."""
    if not ctx.transaction("reserve", steps.reserve_stock, order):
        return Outcome.SOLD_OUT
    if order.needs_approval and not is_approved(ctx, order):
        ctx.transaction("release", steps.release_stock, order, Outcome.REJECTED)
        return Outcome.REJECTED
    try:
        if order.total:
            ctx.step(steps.charge_card, order.id, order.total, order.card)
    except StepFailed:
        ctx.transaction("release", steps.release_stock, order, Outcome.CARD_REFUSED)
        return Outcome.CARD_REFUSED
    ctx.transaction("ship", steps.ship, order, ctx.uuid())
    return Outcome.SHIPPED


def is_approved(ctx: Context, order: Purchase) -> bool:
    """Wait for a person's decision; silence for a week is a no."""
    ctx.transaction("ask", steps.ask_for_approval, order.id)
    try:
        token, decision = ctx.wait_for_signal(f"approve:{order.id}", f"reject:{order.id}", type=Decision, timeout="7d")
    except errors.WaitTimeout:
        return False
    ctx.log.info("Order %s: %s by %s", order.id, token, decision.by)
    return token == f"approve:{order.id}"
