"""The check finds nothing where all is well, and something wherever a row is bent."""

import json
from decimal import Decimal
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import F

from durable.core.states import TERMINAL
from durable.models import BufferedSignal, StepCheckpoint, TransportMessage, WorkflowRun
from testproject.shop.check import find_differences
from testproject.shop.intake import decide, place_order, stock_products
from testproject.shop.models import Charge, ChargeAttempt, Order, Product, Shipment
from testproject.shop.orders import read_products
from testproject.shop.provider import EXPIRED_CARD
from tests.demo.factories import make_purchase, write_orders

PLAIN, GIFT, APPROVED, REJECTED, REFUSED, SOLD_OUT, GONE = range(1, 8)
EXPENSIVE = Decimal("649.00")
PURCHASES = [
    make_purchase(id=PLAIN),
    make_purchase(id=GIFT, sku="SAMPLE-TEA", total=Decimal("0.00")),
    make_purchase(id=APPROVED, sku="DESK-OAK", total=EXPENSIVE, quantity=1),
    make_purchase(id=REJECTED, sku="DESK-OAK", total=EXPENSIVE, quantity=1),
    make_purchase(id=REFUSED, card=EXPIRED_CARD),
    make_purchase(id=SOLD_OUT, sku="BOOK-RARE", quantity=1),
]


def run_of(number):
    return WorkflowRun.objects.filter(run_id=f"order:{number}")


def steps_of(number):
    return StepCheckpoint.objects.filter(run__run_id=f"order:{number}")


def add_charge(number, step_id="order:9:9"):
    Charge.objects.create(step_id=step_id, order_id=number, amount=Decimal("15.80"))


def add_parcel(number):
    Shipment.objects.create(order_id=number, quantity=2, tracking=UUID(int=number))


def copy_run(number, run_id):
    run = run_of(number).get()
    run.pk, run.run_id = None, run_id
    run.save(force_insert=True)


def resize(sku, by):
    Product.objects.filter(sku=sku).update(stock=F("stock") + by)


BENDS = {
    "a charge is missing": lambda: Charge.objects.filter(order_id=PLAIN).delete(),
    "a charge is there twice": lambda: add_charge(PLAIN),
    "a rejected order is charged": lambda: add_charge(REJECTED),
    "a refused card is charged": lambda: add_charge(REFUSED),
    "a gift is charged": lambda: add_charge(GIFT),
    "a cent too much is charged": lambda: Charge.objects.filter(order_id=PLAIN).update(
        amount=F("amount") + Decimal("0.01")
    ),
    "a charge is on another order": lambda: Charge.objects.filter(order_id=PLAIN).update(order_id=APPROVED),
    "the charge belongs to another step": lambda: Charge.objects.filter(order_id=PLAIN).update(step_id="order:1:99"),
    "the log of attempts is lost": lambda: ChargeAttempt.objects.filter(order_id=PLAIN).delete(),
    "a parcel is missing": lambda: Shipment.objects.filter(order_id=PLAIN).delete(),
    "a parcel is sent twice": lambda: add_parcel(PLAIN),
    "a rejected order is shipped": lambda: add_parcel(REJECTED),
    "a parcel is too small": lambda: Shipment.objects.filter(order_id=PLAIN).update(quantity=1),
    "stock is lost": lambda: resize("TEA-EARL", -1),
    "stock appears": lambda: resize("DESK-OAK", 1),
    "stock of something never ordered is lost": lambda: resize("MUG-BLUE", -1),
    "an order is missing": lambda: Order.objects.filter(id=SOLD_OUT).delete(),
    "an order has another customer": lambda: Order.objects.filter(id=PLAIN).update(customer="Zoe"),
    "an order has another status": lambda: Order.objects.filter(id=PLAIN).update(status=Order.Status.PLACED),
    "a run is missing": lambda: run_of(PLAIN).delete(),
    "a run is there twice": lambda: copy_run(PLAIN, "order:1-again"),
    "a run is of an order that nobody placed": lambda: (
        copy_run(PLAIN, "order:99"),
        run_of(99).update(input=json.dumps({"id": 99})),
    ),
    "a run has another id": lambda: run_of(PLAIN).update(run_id="order:one"),
    "a run has not ended": lambda: run_of(PLAIN).update(status="suspended"),
    "a run has failed": lambda: run_of(PLAIN).update(status="failed"),
    "a run has another outcome": lambda: run_of(PLAIN).update(output='"sold out"'),
    "a run has no known outcome": lambda: run_of(PLAIN).update(output='["what"]'),
    "an expired card is shipped": lambda: run_of(REFUSED).update(output='"shipped"'),
    "a step is missing": lambda: steps_of(PLAIN).filter(seq=0).delete(),
    "a step has not ended": lambda: steps_of(PLAIN).filter(kind="remote").update(status="pending"),
    "a step is of another kind": lambda: steps_of(PLAIN).filter(seq=0).update(name="revere"),
    "the receipt is wrong": lambda: steps_of(PLAIN).filter(kind="remote").update(output='{"amount": "1.00"}'),
    "a decision is lost": lambda: BufferedSignal.objects.filter(token=f"approve:{APPROVED}").delete(),
    "a decision was the other one": lambda: BufferedSignal.objects.filter(token=f"approve:{APPROVED}").update(
        token=f"reject:{APPROVED}"
    ),
    "a decision was not taken": lambda: BufferedSignal.objects.filter(token=f"approve:{APPROVED}").update(
        consumed_run=None
    ),
    "a step is still queued": lambda: TransportMessage.objects.create(
        queue="tasks:x", kind="task", body="{}", visible_at=0, created_at=0
    ),
}


class _Undo(Exception):
    pass


def differences_after(bend, orders_file):
    found = []
    try:
        with transaction.atomic():
            bend()
            found = find_differences(orders_file)
            raise _Undo
    except _Undo:
        return found


@pytest.mark.django_db(transaction=True)
def test_every_bent_row_is_found(spawn_worker, wait_until, tmp_path):
    orders_file = write_orders(tmp_path / "orders.csv", PURCHASES)
    stock_products(read_products())
    for purchase in PURCHASES:
        place_order(purchase)
    decide(APPROVED, approve=True, by="Ada")
    decide(REJECTED, approve=False, by="Ada")

    spawn_worker()
    ended = WorkflowRun.objects.filter(status__in=TERMINAL)
    wait_until(lambda: ended.count() == len(PURCHASES), timeout=30, what="all runs to end")

    assert find_differences(orders_file) == []
    unnoticed = [name for name, bend in BENDS.items() if not differences_after(bend, orders_file)]
    assert unnoticed == []
    assert find_differences(write_orders(tmp_path / "more.csv", [*PURCHASES, make_purchase(id=GONE)]))
    assert find_differences(write_orders(tmp_path / "less.csv", PURCHASES[1:]))


@pytest.mark.django_db
def test_a_difference_is_an_exit_code(tmp_path, capsys):
    stock_products(read_products())
    orders_file = write_orders(tmp_path / "orders.csv", PURCHASES)

    with pytest.raises(CommandError, match="6 differences"):
        call_command("shop_check", "--orders", str(orders_file))

    assert "order 1: 0 runs instead of one" in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_the_process_ends_with_that_code(spawn_worker, tmp_path):
    stock_products(read_products())
    orders_file = write_orders(tmp_path / "orders.csv", PURCHASES)

    assert spawn_worker("--orders", str(orders_file), command="shop_check").wait() == 1


@pytest.mark.django_db
def test_nothing_ordered_and_nothing_done_is_well(tmp_path, capsys):
    stock_products(read_products())

    call_command("shop_check", "--orders", str(write_orders(tmp_path / "orders.csv", [])))

    assert "No difference" in capsys.readouterr().out
