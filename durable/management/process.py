"""How a worker process lives and dies: signals, draining, and starting again when code changes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from django.utils import autoreload

from durable.engine.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD_DRAIN_S = 3.0
BROKEN_CODE = 1
"""The exit code of a child whose modules could not be imported; one that was refused ends with another."""
STOPPED_AT_ONCE = b"Stopped at once. What was unfinished is taken up by others when its leases run out.\n"

Say = Callable[[str], None]


class WorkerProcess:
    """Runs a worker in the main thread until it is told to end.

    SIGTERM and SIGINT drain; a second one ends the process at once.

    Args:
        worker: What to run.
        say: Prints a line for people.
    """

    def __init__(self, worker: Worker, say: Say) -> None:
        self._worker = worker
        self._say = say
        self._asked = False
        self._bell, self._ring = os.pipe()

    def run(self, greeting: str) -> bool:
        """Work until told to end; return whether everything that had begun was finished.

        Args:
            greeting: Said when signals are obeyed and the threads have started.
        """
        with self._obeying_signals():
            self._worker.start()
            self._say(greeting)
            self._worker.run()
            if self._asked:
                self._say("Draining: what has begun is finished, nothing new is taken.")
            drained = self._worker.drain()
        self._say("Stopped." if drained else "Stopped before everything was finished; others take it up.")
        return drained

    @contextmanager
    def _obeying_signals(self) -> Iterator[None]:
        stopper = threading.Thread(target=self._stop_when_asked, name="durable-stop", daemon=True)
        stopper.start()
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.write(self._ring, b".")
            stopper.join()
            os.close(self._ring)
            os.close(self._bell)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A handler runs between two instructions of the main thread, which may hold any lock: only the kernel is asked.
        if self._asked:
            os.write(2, STOPPED_AT_ONCE)
            os._exit(1)
        self._asked = True
        os.write(self._ring, b".")

    def _stop_when_asked(self) -> None:
        os.read(self._bell, 1)
        self._worker.stop()


def run_reloading(make_worker: Callable[[], Worker], say: Say, greet: Callable[[Worker], str]) -> None:
    """Run a worker that starts again whenever a file of the project changes; for development.

    The worker lives in a child process. What runs in it while a file changes has a few seconds to end.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        _work_until_code_changes(make_worker, say, greet)
        return
    signal.signal(signal.SIGTERM, lambda *args: sys.exit(0))
    with suppress(KeyboardInterrupt):
        while autoreload.restart_with_reloader() == BROKEN_CODE:
            _wait_for_change(say)


def _work_until_code_changes(make_worker: Callable[[], Worker], say: Say, greet: Callable[[Worker], str]) -> None:
    workers: list[Worker] = []

    def work() -> None:
        worker = make_worker()
        workers.append(worker)
        worker.start()
        say(f"{greet(worker)} It starts again when code changes.")
        worker.run()

    try:
        autoreload.run_with_reloader(work)
    finally:
        for worker in workers:
            worker.drain(_is_over(RELOAD_DRAIN_S))


def _is_over(limit_s: float) -> Callable[[], bool]:
    deadline = time.monotonic() + limit_s
    return lambda: time.monotonic() > deadline


def _wait_for_change(say: Say) -> None:
    looks = autoreload.StatReloader().tick()
    with suppress(SystemExit):  # how Django's reloader says that something changed
        next(looks)  # the first look has nothing to compare with
        say("The code cannot be loaded. It is tried again when it changes.")
        for _look in looks:
            pass
