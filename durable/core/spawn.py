"""Threads, events, locks and queues as a parameter, so that a simulation can own the schedule."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class QueueEmpty(Exception):
    """Nothing was put in the queue in time."""


class Thread(Protocol):
    """Be the handle of a running thread."""

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end, at most this long; None waits for ever."""

    def is_alive(self) -> bool:
        """Tell whether it has not ended."""


class Event(Protocol):
    """Be a flag that threads can wait for."""

    def set(self) -> None:
        """Raise the flag and wake every waiter."""

    def clear(self) -> None:
        """Lower the flag."""

    def is_set(self) -> bool:
        """Tell whether the flag is up."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait for the flag, at most this many seconds; return whether it is up."""


class Lock(Protocol):
    """Be held by one thread at a time."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return whether it was taken."""

    def release(self) -> None:
        """Give the lock back."""

    def __enter__(self) -> bool:
        """Take the lock."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Give the lock back."""


class Queue(Protocol[T]):
    """Hand things from thread to thread, first in, first out."""

    def put(self, item: T, /) -> None:
        """Add an item; never waits."""

    def get(self, timeout_s: float | None = None) -> T:
        """Take the oldest item, waiting for one at most this long; None waits for ever, 0 does not wait.

        Raises:
            QueueEmpty: Nothing came in time.
        """


class Spawn(Protocol):
    """Make threads and what they meet through."""

    def thread(self, name: str, target: Callable[[], object]) -> Thread:
        """Start a thread that does not keep the process alive."""

    def event(self) -> Event:
        """Return a lowered flag."""

    def lock(self) -> Lock:
        """Return a free lock."""

    def queue(self) -> Queue[Any]:
        """Return an empty queue."""


class ThreadSpawn:
    """Make real threads."""

    def thread(self, name: str, target: Callable[[], object]) -> Thread:
        """Start a daemon thread."""
        thread = threading.Thread(name=name, target=target, daemon=True)
        thread.start()
        return _ThreadHandle(thread)

    def event(self) -> Event:
        """Return a lowered flag."""
        return threading.Event()

    def lock(self) -> Lock:
        """Return a free lock."""
        return threading.Lock()

    def queue(self) -> Queue[Any]:
        """Return an empty queue."""
        return _SimpleQueue()


class _ThreadHandle:
    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        return self._thread.is_alive()


class _SimpleQueue:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any, /) -> None:
        self._queue.put(item)

    def get(self, timeout_s: float | None = None) -> Any:
        try:
            if timeout_s is not None and timeout_s <= 0:
                return self._queue.get_nowait()
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            raise QueueEmpty from None
