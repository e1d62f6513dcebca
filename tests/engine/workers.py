"""Workers in threads of the test process: as fast as it gets, and everything that they do can be looked at."""

from __future__ import annotations

import threading
from typing import Any, Self

from django.db import connections

from durable.authoring.registry import registry
from durable.conf import Config
from durable.engine.engine import Engine
from durable.engine.ports import Ports
from durable.engine.worker import Worker, WorkerOptions
from durable.store.hints import make_hints


def make_engine(alias: str = "default", **settings: Any) -> Engine:
    """Return an engine of its own, as another process would have it."""
    ports = Ports.for_alias(alias)
    return Engine(alias, Config.from_raw(settings), ports, make_hints(alias, ports.clock), registry)


class WorkerThread:
    """A worker whose loop runs in a thread as long as the block lasts."""

    def __init__(self, engine: Engine, **options: Any) -> None:
        self.engine = engine
        self.worker = Worker(engine, WorkerOptions(**options))
        self.drained: bool | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="test-worker", daemon=True)

    def _serve(self) -> None:
        try:
            self.worker.start()
            self._started.set()
            self.worker.run()
            self.drained = self.worker.drain()
        finally:
            self._started.set()
            connections.close_all()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self._thread.join(40)
        assert not self._thread.is_alive(), "the worker did not drain"
