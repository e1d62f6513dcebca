"""Hints: how a process tells others to look now. They may be lost; a poll stands behind each.

On PostgreSQL a ``NOTIFY`` in a transaction of its own (inside the business transaction it would serialise all commits
of the database), at most one in 20 ms. On SQLite nothing is sent: every commit changes the modification time of the
``-wal`` file, which costs no statement to see.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from django.db import connections

from durable.core.clock import Clock

CHANNEL = "durable_hint"
LEAST_INTERVAL_S = 0.020
WAL_LOOK_S = 0.010
WAL_QUIET_LOOK_S = 0.025
WAL_QUIET_AFTER_S = 5.0


class Hints(Protocol):
    """Tells and hears that there may be something to do."""

    def send(self) -> None:
        """Tell all processes of this database to look; never raises."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for a hint in the calling thread, which listens from its first call on."""

    def close(self) -> None:
        """Stop listening."""


class PostgresqlHints:
    """``NOTIFY`` and ``LISTEN``.

    Args:
        alias: The database alias.
        clock: The monotonic clock.
    """

    def __init__(self, alias: str, clock: Clock) -> None:
        self._alias = alias
        self._clock = clock
        self._sent_at = float("-inf")
        self._listening: Any = None

    def send(self) -> None:
        """Send a hint, unless one was sent within the last 20 ms: who heard that one is still looking."""
        now = self._clock.monotonic()
        if now - self._sent_at < LEAST_INTERVAL_S:
            return
        self._sent_at = now
        raw = connections[self._alias].connection
        try:
            if raw is not None and raw.info.transaction_status == 0:
                raw.execute(f"NOTIFY {CHANNEL}")
        except Exception:  # noqa: BLE001, S110  # a hint that cannot be sent is a lost hint
            pass

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification."""
        if self._listening is None:
            wrapper = connections.create_connection(self._alias)
            wrapper.ensure_connection()
            wrapper.connection.execute(f"LISTEN {CHANNEL}")
            self._listening = wrapper
        for _ in self._listening.connection.notifies(timeout=timeout_s, stop_after=1):
            return True
        return False

    def close(self) -> None:
        """Close the listening connection."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()


class SqliteHints:
    """The modification time and size of the ``-wal`` file.

    Args:
        path: The database file.
        clock: Sleeps between looks.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._wal = Path(f"{path}-wal")
        self._clock = clock
        self._seen = self._state()
        self._changed_at = clock.monotonic()

    def send(self) -> None:
        """Nothing to send: the commit itself is the hint."""

    def wait(self, timeout_s: float) -> bool:
        """Look at the file every 10 ms, and every 25 ms after a quiet while."""
        now = self._clock.monotonic()
        deadline = now + timeout_s
        while now < deadline:
            state = self._state()
            if state != self._seen:
                self._seen = state
                self._changed_at = now
                return True
            self._clock.sleep(WAL_LOOK_S if now - self._changed_at < WAL_QUIET_AFTER_S else WAL_QUIET_LOOK_S)
            now = self._clock.monotonic()
        return False

    def _state(self) -> tuple[int, int]:
        try:
            found = self._wal.stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def close(self) -> None:
        """Nothing is open."""


def make_hints(alias: str, clock: Clock) -> Hints:
    """Return the hints of a database alias."""
    connection = connections[alias]
    if connection.vendor == "postgresql":
        return PostgresqlHints(alias, clock)
    return SqliteHints(str(connection.settings_dict["NAME"]), clock)
