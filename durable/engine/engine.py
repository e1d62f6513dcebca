"""The engine of one process on one database: its ports, its settings, and the verbs that callers use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from durable.authoring.registry import Registry, registry
from durable.conf import Config, get_config
from durable.engine.dbclock import DatabaseClock
from durable.engine.persist import Persistence
from durable.engine.ports import Ports, watched
from durable.store.hints import Hints, make_hints
from durable.store.records import Interest
from durable.transports.base import Transport
from durable.transports.db import DbTransport
from durable.transports.registry import make_transport


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
        self.after_commit: list[Any] = []

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

    def changed(self) -> None:
        """Tell that a commit of this process made work: at once, or when the caller's transaction commits."""
        self.store.session.after_commit(self._announce)

    def _announce(self) -> None:
        self.hints.send()
        for listener in self.after_commit:
            listener()


_engines: dict[str, Engine] = {}


def get_engine(using: str | None = None) -> Engine:
    """Return this process's engine for a database alias, made on first use.

    Args:
        using: The alias; ``None`` takes the setting ``DATABASE``.

    Raises:
        ConfigurationError: The settings are not accepted.
    """
    config = get_config()
    alias = using or config.database
    engine = _engines.get(alias)
    if engine is None or engine.config is not config:
        ports = Ports.for_alias(alias)
        engine = _engines[alias] = Engine(alias, config, ports, make_hints(alias, ports.clock), registry)
    return engine


def forget_engines() -> None:
    """Drop the engines of this process; a forked child must not share its parent's."""
    _engines.clear()


os.register_at_fork(after_in_child=forget_engines)
