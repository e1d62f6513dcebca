"""Workflows that do nothing but what is measured."""

from __future__ import annotations

from durable import Context, step, workflow


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@step
def increased(number: int) -> int:
    """Return the next number."""
    return number + 1


@workflow
def empty(ctx: Context) -> None:
    """Do nothing."""


@workflow
def local_steps(ctx: Context, count: int) -> int:
    """Run local steps, one after the other."""
    number = 0
    for _ in range(count):
        number = ctx.local_step("add", add, number, 1)
    return number


@workflow
def dispatched_steps(ctx: Context, count: int) -> int:
    """Dispatch steps, one after the other."""
    number = 0
    for _ in range(count):
        number = ctx.step(increased, number)
    return number


@workflow
def signalled(ctx: Context, token: str) -> None:
    """Wait for a signal."""
    ctx.wait_for_signal(token)
