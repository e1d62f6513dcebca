"""Orders as values, and the file they come in. Knows nothing of the database or of the engine."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
ORDERS_FILE = DATA / "orders.csv"
PRODUCTS_FILE = DATA / "products.csv"

APPROVAL_LIMIT = Decimal(500)
"""Orders above this total wait for a person."""

COLUMNS = ("id", "customer", "address", "sku", "quantity", "total", "card", "note")
CENT = Decimal("0.01")


class Outcome(StrEnum):
    """Say how an order ended."""

    SHIPPED = "shipped"
    REJECTED = "rejected"
    SOLD_OUT = "sold out"
    CARD_REFUSED = "card refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """Hold an order as it was placed: the input of the workflow.

    Attributes:
        id: Number of the order.
        customer: Name, as the customer writes it.
        address: Where to ship, one or more lines.
        sku: Product.
        quantity: How many, 1 or more.
        total: What to pay, exact; zero for a gift.
        card: Token of the payment card.
        note: What the customer wrote.
    """

    id: int
    customer: str
    address: str
    sku: str
    quantity: int
    total: Decimal
    card: str
    note: str = ""

    @property
    def run_id(self) -> str:
        """Return the id of the run that fulfils the order; an order placed twice is thus fulfilled once."""
        return f"order:{self.id}"

    @property
    def needs_approval(self) -> bool:
        """Tell whether a person must decide."""
        return self.total > APPROVAL_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Hold what a person decided about an order: the payload of the signal."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocked:
    """Hold a product and how many of it there are at first."""

    sku: str
    name: str
    stock: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Hold what was read at one line of the order file: a purchase, or what is wrong with it."""

    number: int
    purchase: Purchase | None = None
    problem: str = ""


class _UnreadableLineError(Exception):
    """The line is no order; the message says why."""


def read_orders(path: Path = ORDERS_FILE) -> Iterator[Line]:
    """Read an order file, line by line; what is malformed is reported in its place, never raised.

    Args:
        path: A CSV file in UTF-8 whose first line names the columns.

    Raises:
        ValueError: The first line does not name the columns.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from parse_orders(file)


def parse_orders(lines: Iterable[str]) -> Iterator[Line]:
    """Read orders from the lines of a CSV file; see ``read_orders``."""
    reader = csv.reader(lines, strict=True)
    header = next(reader, [])
    if tuple(header) != COLUMNS:
        raise ValueError(f"The first line must be {','.join(COLUMNS)!r}, not {','.join(header)!r}.")
    while True:
        number = reader.line_num + 1  # a record may go over several lines; it is named by its first
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield Line(number=number, problem=str(error))
            continue
        if row is None:
            return
        if row:
            yield _line_of(number, row)


def read_products(path: Path = PRODUCTS_FILE) -> list[Stocked]:
    """Read the products and their first stock."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [
            Stocked(sku=row["sku"], name=row["name"], stock=int(row["stock"]))
            for row in csv.DictReader(file, strict=True)
        ]


def _line_of(number: int, row: list[str]) -> Line:
    try:
        return Line(number=number, purchase=_purchase_of(row))
    except _UnreadableLineError as error:
        return Line(number=number, problem=str(error))


def _purchase_of(row: list[str]) -> Purchase:
    if len(row) != len(COLUMNS):
        raise _UnreadableLineError(f"{len(row)} columns instead of {len(COLUMNS)}")
    cells = dict(zip(COLUMNS, row, strict=True))
    for column in ("customer", "address", "sku", "card"):
        if not cells[column].strip():
            raise _UnreadableLineError(f"{column} is empty")
    return Purchase(
        id=_whole("id", cells["id"]),
        customer=cells["customer"],
        address=cells["address"],
        sku=cells["sku"],
        quantity=_whole("quantity", cells["quantity"]),
        total=_money("total", cells["total"]),
        card=cells["card"],
        note=cells["note"],
    )


def _whole(column: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise _UnreadableLineError(f"{column} is no whole number above zero: {text!r}")
    return int(text)


def _money(column: str, text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and 0 <= amount < 10**9 and amount == amount.quantize(CENT)):
        raise _UnreadableLineError(f"{column} is no amount of money: {text!r}")
    return amount.quantize(CENT)
