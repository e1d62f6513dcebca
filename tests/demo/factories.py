"""Purchases for the tests of the shop."""

import csv
import dataclasses
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from factory.base import Factory
from factory.declarations import Sequence

from testproject.shop.orders import COLUMNS, Purchase


class PurchaseFactory(Factory[Purchase]):
    class Meta:
        model = Purchase

    id = Sequence(lambda number: 5001 + number)
    customer = "Zoë 'Zo' Müller, \"Éclair\" 山田"
    address = "8 rue de l'Église\nBâtiment C"
    sku = "TEA-EARL"
    quantity = 2
    total = Decimal("15.80")
    card = "tok_visa"
    note = "🙏, please"


def make_purchase(**facts: Any) -> Purchase:
    """Return a purchase like any other, but for the facts."""
    return PurchaseFactory.create(**facts)


def write_orders(path: Path, purchases: Iterable[Purchase]) -> Path:
    """Write an order file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(dataclasses.astuple(purchase) for purchase in purchases)
    return path
