"""Turns of phrase that several commands use."""

from __future__ import annotations

from collections.abc import Sequence

MOST_LISTED = 6


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return `: a, b, c` for a line that counted them, cut where it would not be read; nothing for none."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f": {', '.join(names[:MOST_LISTED])}{more}"
