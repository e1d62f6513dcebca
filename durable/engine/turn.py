"""A turn in memory: the lease, the history, the body, and what is to be written with its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from durable.replay.body import Body
from durable.replay.context import BodyContext
from durable.replay.decision import Command
from durable.replay.history import CheckpointRecord, History
from durable.replay.operations import Operation
from durable.store.records import CheckpointWrite, ClaimedRun, Lease


@dataclass(slots=True, kw_only=True)
class Turn:
    """One run as this instance executes it; it outlives the turn while the body stays parked.

    Attributes:
        claim: The run and the lease under which it is executed now.
        context: The body's context.
        body: The body.
        history: What is recorded.
        now_us: The database's instant at which the turn read.
        waiting: The operation on which the body is parked.
        commands: What rides along with the next write, and must be written before user code runs.
        passed: Timers that have passed: they ride along too, but nothing needs them to be written.
    """

    claim: ClaimedRun
    context: BodyContext
    body: Body
    history: History
    now_us: int
    waiting: Operation | None = None
    commands: list[Command] = field(default_factory=list)
    passed: list[Command] = field(default_factory=list)

    @property
    def lease(self) -> Lease:
        """The lease of this turn."""
        return self.claim.lease

    def pending_commands(self) -> tuple[Command, ...]:
        """Return what the next write carries."""
        return (*self.passed, *self.commands)

    def forget_commands(self) -> None:
        """Note that it was written."""
        self.passed.clear()
        self.commands.clear()

    def remember(self, writes: Iterable[CheckpointWrite]) -> None:
        """Add checkpoints that were written to the history in memory."""
        self.history.add(record_of(write) for write in writes)


def record_of(write: CheckpointWrite) -> CheckpointRecord:
    """Return a written checkpoint as it would be read."""
    return CheckpointRecord(
        run_pk=write.run_pk,
        seq=write.seq,
        name=write.name,
        kind=write.kind,
        status=write.status,
        input=write.input,
        output=write.output,
        error=write.error,
        attempts=write.attempts,
        policy=write.policy,
        worker_group=write.worker_group,
        wake_at_us=write.wake_at_us,
        parallel_group=write.parallel_group,
        enqueued_at_us=write.enqueued_at_us,
        started_at_us=write.started_at_us,
        finished_at_us=write.finished_at_us,
    )
