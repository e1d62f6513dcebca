"""Gates at which a step in a thread of this process waits until its test opens them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

GATES: dict[str, threading.Event] = {}


@contextmanager
def gate(name: str) -> Iterator[threading.Event]:
    """Make a gate that is opened at the latest when the block ends."""
    GATES[name] = event = threading.Event()
    try:
        yield event
    finally:
        event.set()
