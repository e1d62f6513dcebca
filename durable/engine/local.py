"""Operations that are done in this process: local steps, transactions, recorded values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from durable.authoring.current import StepContext
from durable.core.clock import Clock
from durable.core.durations import to_us
from durable.core.errors import ControlFlow, LeaseLost
from durable.core.failure import Failure
from durable.core.ids import Ids
from durable.core.retry import RetryIn, judge
from durable.core.states import CheckpointStatus
from durable.engine.apply import checkpoint_of
from durable.engine.leases import Standstill
from durable.engine.persist import FIRST_WAIT_S, LONGEST_WAIT_S
from durable.engine.suspend import Suspension, retry_suspension
from durable.engine.turn import Turn
from durable.engine.usercode import events_text, run_step
from durable.engine.writing import Writer
from durable.replay.decision import RecordCommand
from durable.replay.operations import Answer, Outcome, Position, RecordValue, RunLocal, RunTransaction
from durable.store.errors import StoreTrouble
from durable.store.records import CheckpointWrite
from durable.store.seam import Session

IN_PROCESS_BACKOFF_S = 1.0
"""A local step waits this long in its thread for the next attempt; beyond it the run suspends."""

LocalOperation = RunLocal | RunTransaction
Watch = Callable[[Turn, LocalOperation, int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWork:
    """Runs local steps for the turns of one instance.

    Attributes:
        writer: Stores what was done.
        clock: The instance's clock.
        ids: Randomness for jitter.
        watch: Shows a step that takes long, while it runs.
    """

    writer: Writer
    clock: Clock
    ids: Ids
    watch: Watch

    @property
    def _session(self) -> Session:
        return self.writer.store.session

    def run(self, turn: Turn, operation: LocalOperation) -> Answer | Suspension:
        """Run a local step or a transaction until it succeeds, fails for good, or must wait long.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        record = turn.history.at(operation.at.seq)
        if record is not None and record.wake_at_us is not None and record.wake_at_us > turn.now_us:
            return retry_suspension(operation.at, record.wake_at_us)
        self.writer.flush(turn)
        attempts = record.attempts if record is not None and record.status is CheckpointStatus.PENDING else 0
        while True:
            attempts += 1
            command = self._attempt(turn, operation, attempts)
            if command is None:
                return self._recorded(turn, operation.at)
            delay_us = self._retry_delay_us(command, operation)
            if delay_us is None:
                self.writer.settle(turn, command)
                return self._recorded(turn, operation.at)
            if delay_us > IN_PROCESS_BACKOFF_S * 1_000_000:
                return self._retry_later(command, delay_us)
            self.clock.sleep(delay_us / 1_000_000)

    def _retry_delay_us(self, command: RecordCommand, operation: LocalOperation) -> int | None:
        if command.failure is None:
            return None
        verdict = judge(command.failure, command.attempts, operation.policy, self.ids.random())
        return to_us(verdict.delay) if isinstance(verdict, RetryIn) else None

    def _retry_later(self, command: RecordCommand, delay_us: int) -> Suspension:
        retry_at_us = self.writer.dbclock.now_us() + delay_us
        pending = replace(command, status=CheckpointStatus.PENDING, retry_at_us=retry_at_us, finished_at_us=None)
        return retry_suspension(command, retry_at_us, pending)

    @staticmethod
    def _recorded(turn: Turn, at: Position) -> Answer:
        record = turn.history.at(at.seq)
        if record is None or not record.settled:
            raise LeaseLost(turn.lease.run_id)
        return Answer(outcomes=(record.outcome(),))

    def _attempt(self, turn: Turn, operation: LocalOperation, attempts: int) -> RecordCommand | None:
        """Run the function once; ``None`` when its checkpoint is written already."""
        self.writer.holdings.require(turn.lease)
        context = self._step_context(turn, operation, attempts)
        started_at_us = self.writer.dbclock.now_us()
        try:
            with self.watch(turn, operation, attempts):
                if isinstance(operation, RunTransaction):
                    self._commit(turn, operation, context, started_at_us)
                    return None
                held = partial(self.writer.holdings.require, turn.lease)
                output = operation.encode(run_step(self._session, context, operation.call, still_held=held))
        except ControlFlow:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a step raises is the step's failure
            failure = Failure.from_exception(error, seq=operation.at.seq, attempts=attempts)
            return self._command(operation, context, started_at_us, failure=failure)
        return self._command(operation, context, started_at_us, output=output)

    def _command(
        self,
        operation: LocalOperation,
        context: StepContext,
        started_at_us: int,
        *,
        output: str | None = None,
        failure: Failure | None = None,
    ) -> RecordCommand:
        return RecordCommand(
            seq=operation.at.seq,
            name=operation.at.name,
            kind=operation.at.kind,
            status=CheckpointStatus.COMPLETED if failure is None else CheckpointStatus.FAILED,
            input=operation.input,
            output=output,
            failure=failure,
            events=events_text(context),
            attempts=context.attempt,
            started_at_us=started_at_us,
            finished_at_us=self.writer.dbclock.now_us(),
        )

    def _step_context(self, turn: Turn, operation: LocalOperation, attempts: int) -> StepContext:
        lease = turn.lease
        return StepContext(
            run_id=lease.run_id,
            step_id=f"{lease.run_id}:{operation.at.seq}",
            attempt=attempts,
            clock=self.clock,
            is_cancelled=lambda: not self.writer.holdings.is_good(lease),
        )

    def _commit(self, turn: Turn, operation: RunTransaction, context: StepContext, started_at_us: int) -> None:
        made: list[CheckpointWrite] = []

        def work(still: Standstill | None) -> CheckpointWrite:
            holdings = self.writer.holdings
            if still is not None:
                holdings.begin_standstill(still)
            holdings.require(turn.lease)
            with self._session.writes_only_here():
                held = partial(holdings.require, turn.lease)
                result = run_step(self._session, context, operation.call, still_held=held, tidy=False)
                output = operation.encode(result)
            command = self._command(operation, context, started_at_us, output=output)
            made[:] = [checkpoint_of(turn.claim, command, turn.now_us)]
            if still is not None:
                still.renewed_at = self.clock.monotonic()
            return made[0]

        wait_s = FIRST_WAIT_S
        while not self._committed(turn, work):
            self.writer.read_back(turn, operation.at.seq)
            record = turn.history.at(operation.at.seq)
            if record is not None and record.settled:
                return
            self.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        turn.remember(made)

    def _committed(self, turn: Turn, work: Callable[[Standstill | None], CheckpointWrite]) -> bool:
        store, holdings = self.writer.store, self.writer.holdings
        try:
            if not self._session.is_exclusive():
                return store.record_with(turn.lease, lambda: work(None))
            with holdings.standstill() as still:
                still.committed = store.record_with(turn.lease, lambda: work(still), lease_us=holdings.length_us)
                return still.committed
        except StoreTrouble:
            return False

    def record(self, turn: Turn, operation: RecordValue) -> Answer:
        """Make a value and keep it with the next write.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        if operation.user_code:
            self.writer.flush(turn)
            self.writer.holdings.require(turn.lease)
        now_us = self.writer.dbclock.now_us()
        output: str | None = None
        failure: Failure | None = None
        try:
            output = operation.produce()
        except ControlFlow:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever it raises is recorded, so that a replay raises it too
            failure = Failure.from_exception(error, seq=operation.at.seq, attempts=1)
        turn.commands.append(
            RecordCommand(
                seq=operation.at.seq,
                name=operation.at.name,
                kind=operation.at.kind,
                status=CheckpointStatus.COMPLETED if failure is None else CheckpointStatus.FAILED,
                output=output,
                failure=failure,
                attempts=1,
                started_at_us=now_us,
                finished_at_us=now_us,
            )
        )
        return Answer(outcomes=(Outcome(seq=operation.at.seq, output=output, failure=failure),))
