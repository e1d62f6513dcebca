"""The engines of this process, one for each database alias, made on first use."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

from durable.authoring.registry import registry
from durable.conf import Config, get_config
from durable.core.spawn import Thread, ThreadSpawn
from durable.engine.engine import Engine
from durable.engine.inline import InlineExecution
from durable.engine.ports import Ports
from durable.engine.worker import Worker
from durable.store.hints import make_hints

LOOP_END_S = 5.0
_engines: dict[str, Engine] = {}
_embedded: list[EmbeddedWorker] = []
_making = [ThreadSpawn().lock()]


def get_engine(using: str | None = None) -> Engine:
    """Return this process's engine for a database alias.

    Args:
        using: The alias; ``None`` takes the setting ``DATABASE``.

    Raises:
        ConfigurationError: The settings are not accepted.
    """
    config = get_config()
    alias = using or config.database
    engine = _engines.get(alias)
    if engine is None or engine.config is not config:
        with _making[0]:
            engine = _engines.get(alias)
            if engine is None or engine.config is not config:
                engine = _engines[alias] = _make_engine(alias, config)
    return engine


def _make_engine(alias: str, config: Config) -> Engine:
    ports = Ports.for_alias(alias)
    engine = Engine(alias, config, ports, make_hints(alias, ports.clock), registry)
    _execute_here(engine)
    return engine


def _execute_here(engine: Engine) -> None:
    """Connect transports that execute runs where they are triggered."""
    capabilities = engine.transport.capabilities
    if capabilities.runs_inline:
        engine.after_commit.append(InlineExecution(engine).drive)
    elif not capabilities.crosses_processes:
        embedded = EmbeddedWorker(engine)
        _embedded.append(embedded)
        engine.after_commit.append(embedded.wake)


class EmbeddedWorker:
    """A worker in this process, started by the first run, for the ``local`` transport.

    Args:
        engine: The engine of the process.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = engine.ports.spawn.lock()
        self._worker: Worker | None = None
        self._loop: Thread | None = None

    def wake(self) -> None:
        """Let the worker look, and start it first if need be."""
        with self._lock:
            if self._worker is None:
                self._worker = Worker(self._engine)
                self._worker.start()
                self._loop = self._engine.ports.spawn.thread("durable-loop", self._serve(self._worker))
        self._worker.loop.hinted()

    def _serve(self, worker: Worker) -> Callable[[], None]:
        def serve() -> None:
            try:
                worker.run()
            finally:
                self._engine.store.session.leave_thread()

        return serve

    def stop(self) -> None:
        """Drain the worker, if it was started."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.drain()
        if self._loop is not None:
            self._loop.join(LOOP_END_S)


def close_engines() -> None:
    """Drain what executes in this process and drop its engines; the next use makes new ones."""
    for embedded in _embedded:
        embedded.stop()
    forget_engines()


def forget_engines() -> None:
    """Drop the engines of this process; a forked child must not share its parent's."""
    _engines.clear()
    _embedded.clear()


def _after_fork() -> None:
    """Begin anew in a forked child, also with the lock, which another thread of the parent may have held."""
    _making[:] = [ThreadSpawn().lock()]
    forget_engines()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_engines)
