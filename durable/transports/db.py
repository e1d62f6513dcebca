"""The ``db`` transport: messages are rows of the store, written in the turn that causes them, taken by one taker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from durable.store.records import OutgoingMessage
from durable.store.signals import RUNS_QUEUE
from durable.transports.base import Capabilities, Deliver, DispatchedTask
from durable.wire import messages as wire

TASK = "task"


def task_queue(token: str) -> str:
    """Return the queue of a routing token."""
    return f"tasks:{token}"


class DbTransport:
    """Step tasks as rows."""

    name = "db"
    capabilities = Capabilities(rows=True, crosses_processes=True)

    def attach(self, deliver: Deliver) -> None:
        """Nothing is delivered in process: the loop takes rows."""

    def stage(self, tasks: Sequence[DispatchedTask]) -> list[OutgoingMessage]:
        """Return one row for each task; its key makes a repeated dispatch of the same attempt harmless."""
        return [self._row(dispatched) for dispatched in tasks]

    @staticmethod
    def _row(dispatched: DispatchedTask) -> OutgoingMessage:
        task = dispatched.task
        return OutgoingMessage(
            queue=task_queue(task.group),
            kind=TASK,
            body=wire.encode(task),
            run_pk=dispatched.run_pk,
            seq=task.seq,
            dedupe_key=f"{dispatched.run_pk}:{task.seq}:{task.attempt}",
            namespace=dispatched.namespace,
            priority=int(task.priority or 0),
        )

    def send(self, tasks: Sequence[DispatchedTask]) -> None:
        """Everything went out with the commit."""

    @staticmethod
    def queues(tokens: Iterable[str], *, drive: bool) -> tuple[str, ...]:
        """Return the queues that a process serves."""
        return (*((RUNS_QUEUE,) if drive else ()), *(task_queue(token) for token in tokens))
