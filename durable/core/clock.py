"""The clock as a parameter, so that a test owns the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tell the time and wait."""

    def now_us(self) -> int:
        """Return the microseconds since the epoch, UTC. The wall clock can jump."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards; only differences mean something."""

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""


class SystemClock:
    """Be the clock of the machine."""

    def now_us(self) -> int:
        """Return the microseconds since the epoch, UTC."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)
