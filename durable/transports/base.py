"""The one small interface of transports, and what each is capable of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from durable.wire.messages import RemoteTask

if TYPE_CHECKING:
    from durable.store.records import OutgoingMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedTask:
    """A step task on its way out.

    Attributes:
        task: The task as it goes over the wire.
        run_pk: Surrogate key of its run.
        namespace: Whose pool it belongs to.
    """

    task: RemoteTask
    run_pk: int
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a transport can do.

    Attributes:
        rows: Messages are rows of the store, written in the transaction that causes them.
        crosses_processes: Another process can take what is sent.
        runs_inline: A run is executed where it is triggered, before the trigger returns.
    """

    rows: bool = False
    crosses_processes: bool = False
    runs_inline: bool = False


Deliver = Callable[[RemoteTask], None]


class Transport(Protocol):
    """Carries step tasks."""

    name: str
    capabilities: Capabilities

    def stage(self, tasks: Sequence[DispatchedTask]) -> list[OutgoingMessage]:
        """Return the rows that carry these tasks; none where they go out after the commit."""

    def send(self, tasks: Sequence[DispatchedTask]) -> None:
        """Send what ``stage`` did not put into rows; called after the commit."""

    def attach(self, deliver: Deliver) -> None:
        """Say who executes a task in this process."""
