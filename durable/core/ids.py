"""Identities and randomness as a parameter, and the rules for names that callers choose."""

from __future__ import annotations

import random
import re
from collections.abc import MutableSequence
from typing import Any, Protocol
from uuid import UUID

from durable.core.clock import Clock, SystemClock
from durable.core.errors import InvalidName, InvalidRunId

MAX_NAME_CHARACTERS = 255

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Ids(Protocol):
    """Make identities and random numbers."""

    def run_id(self) -> str:
        """Return a new run id: lower-case text that sorts by time of creation."""

    def token(self, size_bytes: int = 16) -> str:
        """Return hexadecimal text of that many random bytes."""

    def uuid(self) -> UUID:
        """Return a random UUID (version 4)."""

    def random(self) -> float:
        """Return a number from 0 (inclusive) to 1 (exclusive)."""

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put a list in random order, in place."""


class RandomIds:
    """Draw from a generator and a clock; by default from the operating system's.

    Args:
        rng: Source of randomness. A seeded ``random.Random`` makes everything repeatable.
        clock: Gives the time in run ids.
    """

    def __init__(self, rng: random.Random | None = None, clock: Clock | None = None) -> None:
        self._rng = rng if rng is not None else random.SystemRandom()
        self._clock = clock if clock is not None else SystemClock()

    def run_id(self) -> str:
        """Return a UUID of version 7 with the µs in ``rand_a`` (RFC 9562, 6.2, method 3)."""
        ms, rest_us = divmod(self._clock.now_us(), 1_000)
        fraction = rest_us * 4096 // 1_000
        high = (ms & (2**48 - 1)) << 16 | 0x7000 | fraction
        low = 0b10 << 62 | self._rng.getrandbits(62)
        return str(UUID(int=high << 64 | low))

    def token(self, size_bytes: int = 16) -> str:
        """Return hexadecimal text of that many random bytes."""
        return f"{self._rng.getrandbits(size_bytes * 8):0{size_bytes * 2}x}"

    def uuid(self) -> UUID:
        """Return a random UUID (version 4)."""
        return UUID(int=self._rng.getrandbits(128), version=4)

    def random(self) -> float:
        """Return a number from 0 (inclusive) to 1 (exclusive)."""
        return self._rng.random()

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put a list in random order, in place."""
        self._rng.shuffle(items)


def check_run_id(text: str) -> str:
    """Return the run id when every database can hold it.

    Raises:
        InvalidRunId: It is no text, not 1 to 255 characters, or holds a control character or a lone surrogate.
    """
    problem = _problem_of(text)
    if problem is not None:
        raise InvalidRunId(text, problem)
    return text


def check_name(kind: str, text: str) -> str:
    """Return the name when every database can hold it.

    Args:
        kind: What the name is for, as the message shall say: ``"signal token"``.
        text: The name.

    Raises:
        InvalidName: It is no text, not 1 to 255 characters, or holds a control character or a lone surrogate.
    """
    problem = _problem_of(text)
    if problem is not None:
        raise InvalidName(kind, text, problem)
    return text


def _problem_of(text: object) -> str | None:
    if not isinstance(text, str):
        return f"is a {type(text).__name__}, not text"
    if not text:
        return "is empty"
    if len(text) > MAX_NAME_CHARACTERS:
        return f"has {len(text)} characters"
    if (control := _CONTROL.search(text)) is not None:
        return f"holds a control character at position {control.start()}"
    if (surrogate := _SURROGATE.search(text)) is not None:
        return f"holds a lone surrogate at position {surrogate.start()}"
    return None
