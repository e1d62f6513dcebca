"""How stored values are shown to people: shortened, with secrets masked, without what would steer a terminal.

Used by the commands and the admin, which know nothing of each other. Nothing here knows of HTML or colours.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

MASK = "********"
LONGEST_MASKED_CHARACTERS = 1_000_000
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACE = re.compile(r"\s+")


def show_duration(duration: timedelta) -> str:
    """Return a duration with the two units that matter: ``12 ms``, ``1.23 s``, ``2 min 5 s``, ``3 d 4 h``."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms" if seconds >= 0.0095 else f"{seconds * 1_000:.3g} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, unit, part_s, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"
    return f"{whole} s"


def show_span(begin: datetime | None, end: datetime | None, now: datetime | None = None) -> str:
    """Return how long something took; an ellipsis follows while it lasts, nothing is said before it began.

    Args:
        begin: When it began.
        end: When it ended.
        now: Stands for the end while there is none; ``None`` leaves what lasts unsaid.
    """
    if begin is None:
        return ""
    if end is not None:
        return show_duration(end - begin)
    return "" if now is None else f"{show_duration(now - begin)} …"


def queue_wait(enqueued: datetime | None, started: datetime | None) -> timedelta | None:
    """Return how long a step waited for a worker.

    What is stored is when its last attempt was enqueued and when its first one started, so that nothing is known of a
    step that was tried again.
    """
    if enqueued is None or started is None or started < enqueued:
        return None
    return started - enqueued


def show_queue_wait(enqueued: datetime | None, started: datetime | None, now: datetime | None = None) -> str:
    """Return how long a step waited for a worker, or has been waiting; nothing where that is not known."""
    if started is None:
        return show_span(enqueued, None, now)
    wait = queue_wait(enqueued, started)
    return "" if wait is None else show_duration(wait)


def one_line(text: str, limit: int | None = None) -> str:
    """Return text on one line, without control characters, of at most so many characters."""
    flat = _STEERING.sub("\ufffd", _SPACE.sub(" ", text)).strip()
    return flat if limit is None or len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_columns(character) for character in text)


def fit(text: str, width: int) -> str:
    """Return the text, shortened to so many columns of a terminal."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _columns(character)
        if used > width - 1:
            break
        kept += character
    return f"{kept.rstrip()}…"


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def mask_secrets(value: Any, names: Iterable[str]) -> Any:
    """Return a JSON value in which what stands under a key that contains one of the names is masked.

    Args:
        value: What ``json.loads`` gave.
        names: Parts of keys, in any case.
    """
    parts = tuple(name.casefold() for name in names)
    return _mask(value, parts) if parts else value


def _mask(value: Any, parts: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {
            key: MASK if item is not None and any(part in key.casefold() for part in parts) else _mask(item, parts)
            for key, item in value.items()
        }
    return [_mask(item, parts) for item in value] if isinstance(value, list) else value


def can_be_shown(text: str) -> bool:
    """Tell whether text can be sent to a browser or a terminal: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def show_json(text: str, names: Iterable[str], *, indent: int | None = None) -> str:
    """Return stored JSON for people: secrets masked and, with ``indent``, pretty-printed.

    Text that is no JSON, or too large or too deep to be masked, is replaced by a remark: it might hold a secret.
    """
    if len(text) > LONGEST_MASKED_CHARACTERS:
        return f"({len(text):,} characters, too large to be shown)"
    try:
        masked = mask_secrets(json.loads(text), names)
        shown = json.dumps(masked, ensure_ascii=False, indent=indent)
        return shown if can_be_shown(shown) else json.dumps(masked, indent=indent)
    except ValueError:
        return f"({len(text):,} characters that are no JSON)"
    except RecursionError:
        return f"({len(text):,} characters, nested too deeply to be shown)"
