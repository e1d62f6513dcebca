"""Workflows of the tests."""

from __future__ import annotations

import time
from typing import Any

from durable import Context, workflow
from tests.app.steps import async_double, double, fails_for_good, fails_twice, ledger_line, timed_double


def add(left: int, right: int) -> int:
    """Add two numbers, noted in the ledger."""
    ledger_line(f"add {left} {right}")
    return left + right


@workflow
def one_local_step(ctx: Context, number: int) -> int:
    """Add one."""
    return ctx.local_step("add", add, number, 1)


@workflow
def dispatched(ctx: Context, number: int) -> int:
    """Double a number through every kind of dispatched step."""
    first = ctx.step(double, number)
    second = ctx.step(timed_double, first)
    third = ctx.step(fails_twice, second)
    return ctx.step(async_double, third)


@workflow
def gathering(ctx: Context, numbers: list[int]) -> list[int]:
    """Double numbers all at once."""
    return list(ctx.gather(*(double.call(number) for number in numbers)))


@workflow
def mapping(ctx: Context, numbers: list[int]) -> list[int]:
    """Double numbers, three at a time."""
    return list(ctx.map(double, numbers, window=3))


@workflow
def sleepy(ctx: Context, seconds: float) -> str:
    """Sleep."""
    ctx.sleep(seconds)
    return "awake"


@workflow
def patient(ctx: Context, token: str) -> list[Any]:
    """Wait for a signal."""
    name, payload = ctx.wait_for_signal(token)
    return [name, payload]


@workflow
def impatient(ctx: Context, token: str) -> str:
    """Wait for a signal for a short while."""
    try:
        ctx.wait_for_signal(token, timeout="50ms")
    except TimeoutError:
        return "timed out"
    return "signalled"


@workflow
def doomed(ctx: Context) -> None:
    """Fail."""
    ctx.step(fails_for_good, "no way")


@workflow
async def asynchronous(ctx: Context, number: int) -> int:
    """Do everything with awaits."""
    first = await ctx.astep(double, number)
    second = await ctx.alocal_step("add", add, first, 1)
    await ctx.asleep("10ms")
    return second


def be_busy(seconds: float) -> None:
    """Take a while."""
    time.sleep(seconds)


@workflow
def slow(ctx: Context, seconds: float) -> None:
    """Be busy in a local step."""
    ctx.local_step("busy", be_busy, seconds)
