"""What the accepted and the refused uses are about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from durable import Context, step, workflow


@dataclass
class Order:
    id: int
    total: int


@dataclass
class Receipt:
    number: str


@dataclass
class Decision:
    approved: bool


@step
def charge_card(order_id: int, amount_cents: int) -> str:
    return ""


@step(retries=3, backoff="linear", backoff_base="500ms")
async def fetch_tax(order_id: int) -> float:
    return 0.0


@step(name="shop.print")
def print_label(order_id: int, /, *, copies: int = 1) -> bytes:
    return b""


@workflow
def checkout(ctx: Context, order: Order) -> Receipt:
    return Receipt("")


@workflow(name="shop.audit", version="2", tags=["a"])
async def audit(ctx: Context, order_id: int, *, deep: bool = False) -> list[str]:
    return []


def reserve(order_id: int) -> Decision:
    return Decision(True)


def release(order_id: int) -> None: ...


async def fetch(order_id: int) -> AsyncIterator[int] | None:
    return None
