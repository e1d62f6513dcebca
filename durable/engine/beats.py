"""Beats of steps that are executed here.

A turn of this instance that waits for the step hears each beat at once, in memory. For all others a beat is stored,
at most once per throttle; whoever reads it there allows one throttle more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from durable.core.clock import Clock
from durable.core.spawn import Spawn
from durable.engine.dbclock import DatabaseClock
from durable.store.errors import StoreTrouble
from durable.store.store import Store
from durable.wire.messages import RemoteTask

NEVER = float("-inf")
AGAIN_S = 1.0
"""A beat that met a locked checkpoint is stored again after this."""
logger = logging.getLogger("durable.engine")


@dataclass(slots=True, kw_only=True)
class Alive:
    """A step that is being executed, and when a beat of it was last stored (monotonic, in seconds)."""

    task: RemoteTask
    stored_at: float = NEVER
    has_progress: bool = False


class Beats:
    """Keeps steps alive for those who wait for them.

    Args:
        owner: This instance.
        store: The store.
        clock: The monotonic clock.
        dbclock: The database's clock.
        spawn: Makes the lock.
        throttle_s: A step's beats are stored at most once in this many seconds.
        beats_at_once: Whether the first beat of a step of this name is stored as it is taken.
    """

    def __init__(
        self,
        owner: str,
        store: Store,
        clock: Clock,
        dbclock: DatabaseClock,
        spawn: Spawn,
        *,
        throttle_s: float,
        beats_at_once: Callable[[str], bool],
    ) -> None:
        self._owner = owner
        self._store = store
        self._clock = clock
        self._dbclock = dbclock
        self._lock = spawn.lock()
        self._throttle_s = throttle_s
        self._beats_at_once = beats_at_once
        self._alive: dict[str, Alive] = {}

    @contextmanager
    def keep_beating(self, task: RemoteTask) -> Iterator[None]:
        """Beat for a step as long as the block runs."""
        alive = Alive(task=task)
        if not self._beats_at_once(task.name):
            alive.stored_at = self._clock.monotonic() - self._throttle_s + min(AGAIN_S, self._throttle_s)
        with self._lock:
            self._alive[task.step_id] = alive
        self._note(alive, None)
        try:
            yield
        finally:
            with self._lock:
                self._alive.pop(task.step_id, None)

    def beat(self, task: RemoteTask, progress: str | None) -> None:
        """Take a beat of the step itself; the first with progress is stored at once."""
        with self._lock:
            alive = self._alive.get(task.step_id)
        if alive is not None:
            self._note(alive, progress)

    def tick(self) -> None:
        """Beat for every step that is being executed."""
        with self._lock:
            alive = list(self._alive.values())
        for each in alive:
            self._note(each, None)

    def heard_at_us(self, step_id: str) -> int | None:
        """Return when a step that is executed here was last alive, by the database's clock: that is now."""
        return self._dbclock.now_us() if step_id in self._alive else None

    def _note(self, alive: Alive, progress: str | None) -> None:
        now = self._clock.monotonic()
        with self._lock:
            first_progress = progress is not None and not alive.has_progress
            if now - alive.stored_at < self._throttle_s and not first_progress:
                return
            alive.stored_at = now
            alive.has_progress = alive.has_progress or progress is not None
        task = alive.task
        try:
            stored = self._store.record_beat(self._owner, task.run_id, task.seq, progress=progress)
        except StoreTrouble:
            logger.warning("A beat could not be stored", extra={"step_id": task.step_id})
            stored = False
        if not stored:
            alive.stored_at = now - self._throttle_s + min(AGAIN_S, self._throttle_s)
