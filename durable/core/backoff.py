"""How long to wait before the next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, assert_never

from durable.core.durations import to_us

BackoffKind = Literal["fixed", "linear", "exponential"]

_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Compute the wait after a failed attempt.

    With ``jitter`` the wait is drawn evenly from zero to the computed one ("full jitter"), which spreads the load of
    many callers that failed together best: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    Attributes:
        kind: ``fixed`` waits ``base``; ``linear`` waits ``base`` times the failed attempts; ``exponential`` doubles.
        base: Wait after the first failed attempt.
        maximum: Upper bound of every wait.
        jitter: Whether to draw the wait from zero up to the computed one.
    """

    kind: BackoffKind
    base: timedelta
    maximum: timedelta
    jitter: bool

    def delay(self, attempt: int, draw: float) -> timedelta:
        """Return the wait before the next attempt.

        Args:
            attempt: Failed attempts so far, 1 or more.
            draw: Random number from 0 (inclusive) to 1; only read with jitter.

        Raises:
            ValueError: ``attempt`` is below 1.
        """
        if attempt < 1:
            raise ValueError(f"attempt counts the failed attempts so far, from 1; got {attempt}")
        wait_us = min(self._grown_us(attempt), to_us(self.maximum))
        return timedelta(microseconds=int(wait_us * draw) if self.jitter else wait_us)

    def _grown_us(self, attempt: int) -> int:
        base_us = to_us(self.base)
        match self.kind:
            case "fixed":
                return base_us
            case "linear":
                return base_us * attempt
            case "exponential":
                return base_us << min(attempt - 1, _MAX_DOUBLINGS)
            case _:
                assert_never(self.kind)
