"""The history of a run: what was recorded at each position, checked against what the body asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from durable.core.errors import NonDeterminismError
from durable.core.failure import Failure
from durable.core.states import CheckpointKind, CheckpointStatus
from durable.replay.operations import (
    Answer,
    AwaitSteps,
    CallSteps,
    Operation,
    Outcome,
    Position,
    Sleep,
    WaitMode,
    positions_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A stored checkpoint, as replay reads it."""

    run_pk: int
    seq: int
    name: str
    kind: CheckpointKind
    status: CheckpointStatus
    input: str | None = None
    output: str | None = None
    error: str | None = None
    attempts: int = 0
    policy: str | None = None
    worker_group: str | None = None
    wake_at_us: int | None = None
    parallel_group: int | None = None
    last_heartbeat_at_us: int | None = None
    beat_by: str | None = None
    enqueued_at_us: int | None = None
    started_at_us: int | None = None
    finished_at_us: int | None = None
    settled_order: int | None = None

    @property
    def settled(self) -> bool:
        """The operation has its outcome."""
        return self.status in {CheckpointStatus.COMPLETED, CheckpointStatus.FAILED}

    def outcome(self) -> Outcome:
        """Return the recorded outcome."""
        failure = Failure.from_json(self.error or "{}") if self.status is CheckpointStatus.FAILED else None
        return Outcome(seq=self.seq, output=self.output, failure=failure, settled_order=self.settled_order)


class History:
    """The checkpoints of one run by position.

    Args:
        run_id: For errors.
        records: What is stored, in any order.
    """

    def __init__(self, run_id: str, records: Iterable[CheckpointRecord] = ()) -> None:
        self.run_id = run_id
        self._records: dict[int, CheckpointRecord] = {}
        self._last = -1
        self.add(records)

    def add(self, records: Iterable[CheckpointRecord]) -> None:
        """Take in checkpoints that were read or written since."""
        for record in records:
            self._records[record.seq] = record
            self._last = max(self._last, record.seq)

    def at(self, seq: int) -> CheckpointRecord | None:
        """Return what is recorded at a position."""
        return self._records.get(seq)

    def last_seq(self) -> int:
        """Return the highest recorded position, -1 when there is none."""
        return self._last

    def answer(self, operation: Operation, now_us: int) -> Answer | None:
        """Return the recorded answer to an operation, or ``None`` when something must be done for it.

        Args:
            operation: What the body asks.
            now_us: The database's instant at which the turn reads.

        Raises:
            NonDeterminismError: Another operation is recorded there.
        """
        positions = positions_of(operation)
        if all(position.seq not in self._records for position in positions):
            return None
        for position in positions:
            self._check(position)
        outcomes = self._outcomes(operation, now_us)
        return None if outcomes is None else Answer(outcomes=outcomes, replayed=self._last > positions[-1].seq)

    def _outcomes(self, operation: Operation, now_us: int) -> tuple[Outcome, ...] | None:
        if isinstance(operation, CallSteps | AwaitSteps):
            return self._step_outcomes(operation)
        record = self._records[operation.at.seq]
        if record.settled:
            return (record.outcome(),)
        if isinstance(operation, Sleep) and record.wake_at_us is not None and record.wake_at_us <= now_us:
            return (Outcome(seq=record.seq, output="null"),)
        return None

    def _step_outcomes(self, operation: CallSteps | AwaitSteps) -> tuple[Outcome, ...] | None:
        records = [self._records[call.at.seq] for call in operation.calls if call.at.seq in self._records]
        if len(records) < len(operation.calls):
            return None
        if operation.mode is None:
            return ()
        if is_over(records, operation.mode):
            return tuple(record.outcome() for record in records if record.settled)
        return None

    def _check(self, asked: Position) -> None:
        recorded = self.at(asked.seq)
        if recorded is not None and (recorded.name, recorded.kind) != (asked.name, asked.kind):
            raise NonDeterminismError(
                self.run_id, asked.seq, recorded.name, recorded.kind.value, asked.name, asked.kind.value
            )


def is_over(records: Sequence[CheckpointRecord], mode: WaitMode) -> bool:
    """Tell whether a wait for these checkpoints has ended: all settled, or under ``fail_fast`` one failed."""
    if mode == "fail_fast" and any(record.status is CheckpointStatus.FAILED for record in records):
        return True
    return all(record.settled for record in records)
