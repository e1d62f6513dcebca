"""The shop's counter: products are stocked, orders are taken and decided about."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from durable import api
from testproject.shop.models import Order, Product
from testproject.shop.orders import Decision, Purchase, Stocked
from testproject.shop.workflows import fulfil


def stock_products(products: Iterable[Stocked]) -> None:
    """Put products on the shelf."""
    Product.objects.bulk_create(Product(sku=each.sku, name=each.name, stock=each.stock) for each in products)


def place_order(purchase: Purchase) -> bool:
    """Take an order and start its run, both or neither; an order that was placed before changes nothing.

    Returns:
        Whether the order is new.
    """
    with transaction.atomic():
        # The start comes first: it writes, so that SQLite takes its lock at once instead of in the middle.
        fulfil.start_as(purchase.run_id, purchase)
        _, is_new = Order.objects.get_or_create(
            id=purchase.id,
            defaults={
                "customer": purchase.customer,
                "address": purchase.address,
                "product_id": purchase.sku,
                "quantity": purchase.quantity,
                "total": purchase.total,
                "note": purchase.note,
            },
        )
    return is_new


def decide(order_id: int, *, approve: bool, by: str, reason: str = "") -> None:
    """Tell the run that waits for it what a person decided."""
    verb = "approve" if approve else "reject"
    api.signal(f"{verb}:{order_id}", Decision(by=by, reason=reason))
