"""The five ports through which the engine touches the world, and the hook by which tests stand in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from durable.core.clock import Clock, SystemClock
from durable.core.ids import Ids, RandomIds
from durable.core.spawn import Spawn, ThreadSpawn
from durable.store.django_session import open_session
from durable.store.store import Store

Port = TypeVar("Port")
Watch = Callable[[str, Any], Any]

_watch: list[Watch] = []


def install_watch(watch: Watch | None) -> None:
    """Let every store and transport that is made from now on pass through ``watch(name, port)``; ``None`` ends it."""
    _watch[:] = [] if watch is None else [watch]


def watched(name: str, port: Port) -> Port:
    """Return the port, or what the installed watch makes of it."""
    for watch in _watch:
        port = watch(name, port)
    return port


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Store, clock, ids and threads; the transport is made from them."""

    store: Store
    clock: Clock
    ids: Ids
    spawn: Spawn

    @classmethod
    def for_alias(cls, alias: str) -> Ports:
        """Return the ports of a real process on a database alias."""
        clock = SystemClock()
        store = watched("store", Store(open_session(alias)))
        return cls(store=store, clock=clock, ids=RandomIds(clock=clock), spawn=ThreadSpawn())
