"""Transports inside one process: ``memory`` runs a step in the dispatch call, ``local`` hands it to the step threads.

Both lose what is under way when the process dies: the run then waits for a result that does not come. They are for
tests, and for projects of one process that can live with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable.transports.base import Capabilities, Deliver, DispatchedTask

if TYPE_CHECKING:
    from durable.store.records import OutgoingMessage


class InProcessTransport:
    """What both have in common: nothing is a row, and whoever is attached gets the task."""

    name = "local"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self._deliver: Deliver | None = None

    def attach(self, deliver: Deliver) -> None:
        """Say who executes a task."""
        self._deliver = deliver

    def stage(self, tasks: Sequence[DispatchedTask]) -> list[OutgoingMessage]:
        """Nothing is put into rows."""
        return []

    def send(self, tasks: Sequence[DispatchedTask]) -> None:
        """Hand the tasks over; without anyone attached they stay unanswered, as on a broker without workers."""
        if self._deliver is not None:
            for dispatched in tasks:
                self._deliver(dispatched.task)


class LocalTransport(InProcessTransport):
    """Single-process production: the attached step threads take the task."""


class MemoryTransport(InProcessTransport):
    """Tests: the step has run when the dispatch returns."""

    name = "memory"
    capabilities = Capabilities(runs_inline=True)
