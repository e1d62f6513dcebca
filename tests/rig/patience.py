"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class StillFalseError(AssertionError):
    """A condition did not come true within its limit."""


def wait_until(
    condition: Callable[[], T], *, timeout: float = 15.0, interval: float = 0.02, what: str | None = None
) -> T:
    """Return the first true value of the condition.

    Args:
        condition: called again and again; must have no effect.
        timeout: seconds until the test fails.
        interval: seconds between two looks.
        what: what is waited for, for the message; else the condition's own name.

    Raises:
        StillFalseError: the condition was false at the end of the limit.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            name = what or getattr(condition, "__qualname__", repr(condition))
            message = f"After {timeout:g} s still not true: {name} (last value: {value!r})."
            raise StillFalseError(message)
        time.sleep(interval)
    return value
