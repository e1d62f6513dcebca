"""Uses that must be accepted, with the types that must come out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from declared import Decision, Order, Receipt, audit, charge_card, checkout, fetch_tax, print_label, release, reserve

from durable import Call, Context, Failed, Ok, Run, RunStatus, current_step, ref, step
from durable.authoring.refs import AsyncStep, FunctionRef, Step


def sync_body(ctx: Context, order: Order) -> None:
    assert_type(ctx.step(charge_card, 1, 2), str)
    assert_type(ctx.step(charge_card, order_id=1, amount_cents=2), str)
    assert_type(ctx.step(fetch_tax, 1), float)
    assert_type(ctx.step(charge_card.options(queue="payments", priority=10, requires=["saga"]), 1, 2), str)
    assert_type(ctx.step(print_label, 1, copies=2), bytes)

    assert_type(ctx.local_step("reserve", reserve, 1), Decision)
    assert_type(ctx.local_step("reserve", ref(reserve, compensate=release, retries=0), order.id), Decision)
    assert_type(ctx.local_step("tax", fetch_tax, 1), float)
    assert_type(ctx.local_step("charge", charge_card, 1, amount_cents=2), str)
    assert_type(ctx.local_step("lambda", lambda: 1), int)
    assert_type(ctx.local_step("async", sleepy, 1), Decision)

    assert_type(ctx.step_by_name("payments:charge", {"id": 1}, returns=Receipt), Receipt)
    assert_type(ctx.step_by_name("payments:charge", timeout="5m"), Any)

    assert_type(ctx.gather(charge_card.call(1, 2), fetch_tax.call(1)), tuple[str, float])
    assert_type(ctx.gather(charge_card.call(1, 2), checkout.call(order)), tuple[str, Receipt])
    assert_type(ctx.gather(fetch_tax.call(1), mode="fail_fast"), tuple[float])
    assert_type(
        ctx.gather(charge_card.call(1, 2), audit.call(1, deep=True), mode="settled"),
        tuple[Ok[str] | Failed, Ok[list[str]] | Failed],
    )
    assert_type(ctx.gather(*[fetch_tax.call(each) for each in range(3)]), tuple[float, ...])
    assert_type(ctx.gather(*[fetch_tax.call(1)], mode="settled"), tuple[Ok[float] | Failed, ...])

    assert_type(ctx.map(fetch_tax, [1, 2]), Iterator[float])
    assert_type(ctx.map(fetch_tax, range(3), window=5, mode="settled"), Iterator[Ok[float] | Failed])

    assert_type(ctx.wait_for_signal("a", "b", type=Decision, timeout="7d"), tuple[str, Decision])
    assert_type(ctx.wait_for_signal("a"), tuple[str, Any])
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.side_effect(lambda: 7), int)
    assert_type(ctx.transaction("book", reserve, 1), Decision)
    ctx.sleep("5m")
    ctx.sleep(1.5)
    ctx.sleep_until(ctx.now())
    ctx.log.info("hello")


async def async_body(ctx: Context, order: Order) -> None:
    assert_type(await ctx.astep(charge_card, 1, 2), str)
    assert_type(await ctx.astep(fetch_tax, order_id=1), float)
    assert_type(await ctx.alocal_step("reserve", reserve, 1), Decision)
    assert_type(await ctx.alocal_step("async", sleepy, 1), Decision)
    assert_type(await ctx.agather(charge_card.call(1, 2), fetch_tax.call(1)), tuple[str, float])
    assert_type(await ctx.astep_by_name("x", returns=Receipt), Receipt)
    assert_type(await ctx.await_for_signal("a", type=Decision), tuple[str, Decision])
    async for tax in ctx.amap(fetch_tax, [1]):
        assert_type(tax, float)
    await ctx.asleep("1s")
    await ctx.asleep_until(ctx.now())


async def sleepy(order_id: int) -> Decision:
    return Decision(True)


def outside(ctx: Context, order: Order) -> None:
    run = checkout.start(order)
    assert_type(run, Run[Receipt])
    assert_type(run.result(timeout="30s"), Receipt)
    assert_type(run.status, RunStatus)
    assert_type(checkout.options(priority=5, tags=["vip"]).start(order), Run[Receipt])
    assert_type(checkout.start_as("checkout:7", order=order), Run[Receipt])
    assert_type(audit.start(1, deep=True).result(), list[str])
    assert_type(checkout(ctx, order), Receipt)
    assert_type(asyncio.run(audit(ctx, 1)), list[str])
    assert_type(charge_card(1, 2), str)
    coroutine: Coroutine[Any, Any, float] = fetch_tax(1)
    assert_type(asyncio.run(coroutine), float)
    assert_type(charge_card.call(1, 2), Call[str])
    current_step().heartbeat({"row": 1})


async def outside_async(order: Order) -> None:
    assert_type(await (await checkout.astart(order)).aresult(), Receipt)
    assert_type(await audit.astart_as("id", 1), Run[list[str]])


@step
def bare(a: int) -> int:
    return a


@step()
def with_parentheses(a: int) -> int:
    return a


@step
async def bare_async(a: int) -> int:
    return a


def kinds() -> None:
    assert_type(bare(1), int)
    assert_type(with_parentheses(a=1), int)
    sync_step: Step[[int], int] = bare
    async_step: AsyncStep[[int], int] = bare_async
    function: FunctionRef[[int], Decision] = ref(sleepy)
    print(sync_step, async_step, function)
