"""Uses that must be refused. Each marked line is an error; the marker is a word that its message must hold."""

from __future__ import annotations

from declared import Order, audit, charge_card, checkout, fetch_tax, release, reserve

from durable import Context, ref, step, workflow


def sync_body(ctx: Context, order: Order) -> None:
    ctx.step(charge_card, 1, "2")  # error: Argument 3
    ctx.step(charge_card, order_id="1", amount_cents=2)  # error: order_id
    ctx.step(charge_card, order_id=1, amount=2)  # error: amount
    ctx.step(charge_card, 1)  # error: amount_cents
    ctx.step(fetch_tax, order_id="1")  # error: order_id
    ctx.step(fetch_tax, 1, 2)  # error: Too many
    ctx.step(charge_card.options(queue=7), 1, 2)  # error: queue
    ctx.step(charge_card.options(qeue="a"), 1, 2)  # error: qeue
    ctx.step(reserve, 1)  # error: Ref
    number: int = ctx.step(charge_card, 1, 2)  # error: assignment
    tax: str = ctx.step(fetch_tax, 1)  # error: assignment
    ctx.local_step("reserve", ref(reserve), "1")  # error: local_step
    ctx.local_step("reserve", reserve, "1")  # error: local_step
    ctx.local_step(reserve, 1)  # error: local_step
    one, two, three = ctx.gather(charge_card.call(1, 2), fetch_tax.call(1))  # error: unpack
    text: tuple[str, str] = ctx.gather(charge_card.call(1, 2), fetch_tax.call(1))  # error: assignment
    ctx.gather(charge_card(1, 2))  # error: gather
    ctx.gather(charge_card.call(1), fetch_tax.call(1))  # error: amount_cents
    ctx.gather(fetch_tax.call(1), mode="fast")  # error: gather
    ctx.map(fetch_tax, ["a"])  # error: map
    ctx.sleep(None)  # error: sleep
    ctx.wait_for_signal("a", type=Order, timeout=[])  # error: wait_for_signal
    ctx.step_by_name("x", {}, retrys=1)  # error: step_by_name


def outside(ctx: Context, order: Order) -> None:
    checkout.start(7)  # error: start
    checkout.start()  # error: order
    checkout.start(ordr=order)  # error: ordr
    checkout.start_as(7, order)  # error: start_as
    checkout.options(priorty=1)  # error: priorty
    audit.start(1, deep="x")  # error: deep
    result: int = checkout.start(order).result()  # error: assignment
    checkout(order)  # error: order
    ref(release, compensate=7)  # error: ref


@step(retries="3")  # error: step
def wrong_value() -> None: ...


@step(backoff="quadratic")  # error: step
def wrong_word() -> None: ...


@workflow  # error: workflow
def no_context(order: Order) -> None: ...
