"""Steps of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from durable import FatalError, current_step, step


def ledger_line(text: str) -> None:
    """Append a line to the ledger outside the database, in one write."""
    path = os.environ.get("TEST_LEDGER")
    if path:
        descriptor = os.open(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)


@step
def double(number: int) -> int:
    """Return twice the number."""
    ledger_line(f"double {current_step().step_id}")
    return 2 * number


@step(retries=2, backoff="fixed", backoff_base="10ms", jitter=False)
def fails_twice(number: int) -> int:
    """Fail at the first two attempts."""
    if current_step().attempt < 3:
        raise ValueError(f"attempt {current_step().attempt}")
    return number


@step
def fails_for_good(reason: str) -> None:
    """Fail at once and for good."""
    raise FatalError(reason, code="for_good")


@step(timeout="5s")
def timed_double(number: int) -> int:
    """Return twice the number, with a time limit."""
    return 2 * number


@step
async def async_double(number: int) -> int:
    """Return twice the number, asynchronously."""
    return 2 * number
