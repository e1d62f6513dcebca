"""The engine of one process on one database: its ports, its settings, and the verbs that callers use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from durable.authoring.registry import Registry
from durable.conf import Config
from durable.core.failure import Failure
from durable.engine.dbclock import DatabaseClock
from durable.engine.persist import Persistence
from durable.engine.ports import Ports, watched
from durable.store.hints import Hints
from durable.store.records import Interest
from durable.transports.base import Transport
from durable.transports.db import DbTransport
from durable.transports.registry import make_transport

CANCELLED = Failure(kind="RunCancelled", code="cancelled", message="it was cancelled", retryable=False)


class Engine:
    """What every process has: it starts, reads and steers runs. Executing them is the worker's.

    Args:
        alias: The store's database alias.
        config: The settings.
        ports: Store, clock, ids and threads.
        hints: Tells other processes to look.
        registry: The workflows and steps of this process.
    """

    def __init__(self, alias: str, config: Config, ports: Ports, hints: Hints, registry: Registry) -> None:
        self.alias = alias
        self.config = config
        self.ports = ports
        self.hints = hints
        self.registry = registry
        self.owner = ports.ids.token(12)
        self.store = ports.store
        self.dbclock = DatabaseClock(ports.clock, ports.store)
        self.persistence = Persistence(ports.clock, ports.ids)
        self.transport: Transport = watched("transport", make_transport(config.transport))
        self.after_commit: list[Callable[[], None]] = []

    @property
    def own_partition(self) -> str | None:
        """The partition that this instance serves: its own, else its namespace."""
        return self.config.partition or self.config.namespace

    def interest(self, *, tokens: Sequence[str], drive: bool) -> Interest:
        """Return what this instance takes.

        Args:
            tokens: Routing tokens of the steps that it serves.
            drive: Whether it executes runs.
        """
        rows = self.transport.capabilities.rows
        queues = DbTransport.queues(tokens if rows else (), drive=drive)
        return Interest(
            workflows=self.registry.workflow_keys() if drive else (),
            queues=queues,
            namespace=self.config.namespace,
            drive=drive,
        )

    def cancel(self, run_id: str) -> bool:
        """End an open run as cancelled; return whether this call did."""
        return self.persistence.attempts(lambda: self.store.cancel_run(run_id, CANCELLED.to_json()))

    def changed(self) -> None:
        """Tell that a commit of this process made work: at once, or when the caller's transaction commits."""
        self.store.session.after_commit(self._announce)

    def _announce(self) -> None:
        self.hints.send()
        for listener in self.after_commit:
            listener()
