"""Durations as people write them, and back."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal

from durable.core.errors import InvalidDuration

Duration = timedelta | int | float | str
"""A timedelta, a number of seconds, or text such as ``"250ms"``, ``"30s"``, ``"5m"``, ``"2h"``, ``"7d"``."""

_TEXT = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(ms|s|m|h|d)\s*", re.ASCII)
_UNIT_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_MICROSECOND = timedelta(microseconds=1)


LONGEST = timedelta(days=365_250)
"""A thousand years: instants beyond it would not fit what databases and clients can show."""


def parse_duration(value: Duration) -> timedelta:
    """Return a duration as a timedelta.

    Args:
        value: A timedelta, a number of seconds, or text with one of the units ms, s, m, h, d.

    Raises:
        InvalidDuration: The value is negative, no number, has no unit, or is longer than a timedelta can be.
    """
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float | str):
        raise InvalidDuration(value, f"it is a {type(value).__name__}")
    try:
        duration = _parse_text(value) if isinstance(value, str) else _from_number(value)
    except OverflowError as error:
        raise InvalidDuration(value, "it is too long") from error
    if duration < timedelta(0):
        raise InvalidDuration(value, "it is negative")
    if duration > LONGEST:
        raise InvalidDuration(value, "it is longer than a thousand years")
    return duration


def _parse_text(text: str) -> timedelta:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidDuration(text, "the text is not a number followed by ms, s, m, h or d")
    return timedelta(microseconds=round(Decimal(match[1]) * _UNIT_US[match[2]]))


def _from_number(value: timedelta | float) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if math.isnan(value):
        raise InvalidDuration(value, "it is not a number")
    return timedelta(seconds=value)


def to_us(duration: timedelta) -> int:
    """Return whole microseconds, exactly."""
    return duration // _MICROSECOND


def to_ms(duration: timedelta) -> int:
    """Return whole milliseconds, rounded up, so that nothing that waits this long wakes early."""
    return -(-to_us(duration) // 1_000)


def format_duration(duration: timedelta) -> str:
    """Return the shortest text that ``parse_duration`` reads back as the same duration.

    Raises:
        InvalidDuration: The duration is negative.
    """
    us = to_us(parse_duration(duration))
    if us == 0:
        return "0s"
    for unit in ("d", "h", "m", "s", "ms"):
        if us % _UNIT_US[unit] == 0:
            return f"{us // _UNIT_US[unit]}{unit}"
    return f"{us // 1_000}.{us % 1_000:03}".rstrip("0") + "ms"
