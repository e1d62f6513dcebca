"""Workflows whose statements are counted. They have names of their own: here no test process installs the app."""

from __future__ import annotations

from durable import Context, step, workflow


def increase(number: int) -> int:
    """Add one."""
    return number + 1


@step(name="budgets.doubled")
def doubled(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@workflow(name="budgets.local_steps")
def local_steps(ctx: Context, count: int) -> int:
    """Run local steps, one after the other."""
    number = 0
    for _ in range(count):
        number = ctx.local_step("increase", increase, number)
    return number


@workflow(name="budgets.recorded_values")
def recorded_values(ctx: Context, count: int) -> int:
    """Record values, which are written with the end of the turn."""
    return sum(1 for _ in range(count) if ctx.random() < 1)


@workflow(name="budgets.gathered_steps")
def gathered_steps(ctx: Context, count: int) -> int:
    """Dispatch steps at once."""
    return sum(ctx.gather(*(doubled.call(number) for number in range(count))))


@workflow(name="budgets.dispatched_steps")
def dispatched_steps(ctx: Context, count: int) -> int:
    """Dispatch steps, one after the other."""
    return sum(ctx.step(doubled, number) for number in range(count))


@workflow(name="budgets.values_and_signal")
def values_and_signal(ctx: Context, count: int, token: str) -> int:
    """Record values, then wait for a signal."""
    for _ in range(count):
        ctx.random()
    ctx.wait_for_signal(token)
    return count


@workflow(name="budgets.asleep")
def asleep(ctx: Context, seconds: float) -> None:
    """Sleep."""
    ctx.sleep(seconds)
