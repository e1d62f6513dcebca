"""The one place where decisions become rows: of local turns and of remote ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.engine.dispatch import dispatch
from durable.replay.decision import (
    CallCommand,
    Command,
    Decision,
    RecordCommand,
    SleepCommand,
    WaitSignalCommand,
)
from durable.store.records import CheckpointWrite, ClaimedRun, OutgoingMessage, TurnEnd
from durable.transports.base import DispatchedTask, Transport

STATUS_AFTER = {
    "continue": RunStatus.SUSPENDED,
    "completed": RunStatus.COMPLETED,
    "failed": RunStatus.FAILED,
    "cancelled": RunStatus.CANCELLED,
}
WAITING_ON_CHARACTERS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """Commands as rows, and the tasks that go out after the commit."""

    checkpoints: tuple[CheckpointWrite, ...]
    messages: tuple[OutgoingMessage, ...]
    waiters: tuple[tuple[int, str], ...]
    tasks: tuple[DispatchedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applier:
    """Turns commands into what the store writes.

    Attributes:
        transport: Carries dispatched steps.
        partition: This instance's partition.
        reconcile_us: When a suspended run without a timer of its own looks again.
    """

    transport: Transport
    partition: str | None
    reconcile_us: int

    def translate(self, claim: ClaimedRun, commands: Iterable[Command], now_us: int) -> Translation:
        """Return the rows for commands."""
        writes: list[CheckpointWrite] = []
        waiters: list[tuple[int, str]] = []
        tasks: list[DispatchedTask] = []
        for command in commands:
            writes.append(checkpoint_of(claim, command, now_us))
            if isinstance(command, CallCommand):
                tasks.append(dispatch(claim, command, self.partition))
            elif isinstance(command, WaitSignalCommand):
                waiters.extend((command.seq, token) for token in command.tokens)
        return Translation(
            checkpoints=tuple(writes),
            messages=tuple(self.transport.stage(tasks)),
            waiters=tuple(waiters),
            tasks=tuple(tasks),
        )

    def end_of(self, claim: ClaimedRun, decision: Decision, now_us: int) -> tuple[TurnEnd, Translation]:
        """Return the end of a turn as the store writes it."""
        rows = self.translate(claim, decision.commands, now_us)
        status = STATUS_AFTER[decision.status]
        end = TurnEnd(
            lease=claim.lease,
            status=status,
            output=decision.output,
            error=None if decision.failure is None else decision.failure.to_json(),
            wake_at_us=self._wake_at(decision, now_us) if status is RunStatus.SUSPENDED else None,
            waiting_on=decision.waiting_on[:WAITING_ON_CHARACTERS],
            note=decision.note,
            checkpoints=rows.checkpoints,
            messages=rows.messages,
            waiters=rows.waiters,
        )
        return end, rows

    def _wake_at(self, decision: Decision, now_us: int) -> int:
        fallback_us = now_us + self.reconcile_us
        return fallback_us if decision.wake_at_us is None else min(decision.wake_at_us, fallback_us)


def checkpoint_of(claim: ClaimedRun, command: Command, now_us: int) -> CheckpointWrite:
    """Return the checkpoint that a command writes."""
    run_pk = claim.lease.run_pk
    match command:
        case RecordCommand():
            return CheckpointWrite(
                run_pk=run_pk,
                seq=command.seq,
                name=command.name,
                kind=command.kind,
                status=command.status,
                input=command.input,
                output=command.output,
                error=None if command.failure is None else command.failure.to_json(),
                events=command.events,
                attempts=command.attempts,
                wake_at_us=command.retry_at_us,
                started_at_us=command.started_at_us,
                finished_at_us=command.finished_at_us,
            )
        case CallCommand():
            return CheckpointWrite(
                run_pk=run_pk,
                seq=command.seq,
                name=command.name,
                kind=CheckpointKind.REMOTE,
                status=CheckpointStatus.PENDING,
                input=command.input,
                attempts=command.attempt,
                policy=command.policy.to_json(),
                worker_group=command.queue,
                parallel_group=command.parallel_group,
                enqueued_at_us=now_us,
            )
        case SleepCommand():
            return CheckpointWrite(
                run_pk=run_pk,
                seq=command.seq,
                name=command.name,
                kind=CheckpointKind.SLEEP,
                status=CheckpointStatus.PENDING,
                wake_at_us=command.wake_at_us,
                started_at_us=now_us,
            )
        case WaitSignalCommand():
            return CheckpointWrite(
                run_pk=run_pk,
                seq=command.seq,
                name=command.name,
                kind=CheckpointKind.SIGNAL,
                status=CheckpointStatus.PENDING,
                wake_at_us=command.wake_at_us,
                started_at_us=now_us,
            )
        case _:
            assert_never(command)
