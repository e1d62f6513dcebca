"""Driving a body: answer from history, do what can be done, end the turn when something must be awaited."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, assert_never

from durable.authoring.refs import Workflow
from durable.core.errors import LeaseLost, NonDeterminismError, PayloadError
from durable.core.failure import Failure
from durable.core.states import CheckpointStatus
from durable.engine.apply import Translation, checkpoint_of
from durable.engine.local import LocalWork
from durable.engine.settling import failed_attempt
from durable.engine.suspend import StepWait, Suspension, call_command, sleep_suspension
from durable.engine.turn import Turn, record_of
from durable.engine.writing import Writer
from durable.replay.body import Raised, Returned
from durable.replay.decision import Decision, RecordCommand, WaitSignalCommand
from durable.replay.operations import (
    Answer,
    AwaitSignal,
    AwaitSteps,
    CallSteps,
    Operation,
    RecordValue,
    RunLocal,
    RunTransaction,
    Sleep,
    positions_of,
)
from durable.replay.plans import WAIT_TIMEOUT, StoredValueUnreadable
from durable.store.records import CheckpointWrite

CAUSE_LINKS = 100
logger = logging.getLogger("durable.engine")


class Verdict(Enum):
    """How a turn left its run."""

    ENDED = auto()
    SUSPENDED = auto()
    HELD = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What became of a turn: the verdict, the end of the run if it ended, and when a held turn looks again."""

    verdict: Verdict
    decision: Decision | None = None
    look_at_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advancer:
    """Advances the turns of one instance.

    Attributes:
        writer: Writes under the lease.
        local: Does what is done in this process.
        step_wait: Looks at dispatched steps.
        limit_bytes: Upper bound of a run's output.
    """

    writer: Writer
    local: LocalWork
    step_wait: StepWait
    limit_bytes: int

    def advance(self, turn: Turn, workflow: Workflow[..., Any]) -> Finish:
        """Drive a turn to its end.

        Raises:
            LeaseLost: The run belongs to someone else now; nothing more was written.
        """
        operation = turn.waiting
        while True:
            if operation is None:
                event = turn.body.resume(None)
            else:
                try:
                    answer = self._answer(turn, operation)
                except NonDeterminismError as mismatch:
                    turn.body.discard()
                    return self._end(turn, workflow, Raised(mismatch))
                if isinstance(answer, Finish):
                    turn.waiting = operation
                    return answer
                event = turn.body.resume(answer)
            if isinstance(event, Returned | Raised):
                return self._end(turn, workflow, event)
            operation = event

    def _answer(self, turn: Turn, operation: Operation) -> Answer | Finish:
        while True:
            recorded = turn.history.answer(operation, turn.now_us)
            if recorded is not None:
                self._note_passed(turn, operation)
                return recorded
            result = self._perform(turn, operation)
            if isinstance(result, Answer):
                return result
            if isinstance(result, Finish):
                return result
            finish = self._suspend(turn, operation, result)
            if finish is not None:
                return finish

    @staticmethod
    def _note_passed(turn: Turn, operation: Operation) -> None:
        """Let the next write show that a timer has passed; replays know without it."""
        record = turn.history.at(operation.at.seq) if isinstance(operation, Sleep) else None
        if record is not None and not record.settled:
            command = RecordCommand(
                seq=record.seq,
                name=record.name,
                kind=record.kind,
                status=CheckpointStatus.COMPLETED,
                output="null",
                finished_at_us=turn.now_us,
            )
            turn.passed.append(command)

    def _perform(self, turn: Turn, operation: Operation) -> Answer | Suspension | Finish:
        match operation:
            case RunLocal() | RunTransaction():
                return self.local.run(turn, operation)
            case RecordValue():
                return self.local.record(turn, operation)
            case CallSteps() if operation.mode is None:
                return self._prepare_calls(turn, operation)
            case CallSteps() | AwaitSteps():
                return self.step_wait.suspension(turn, operation, turn.now_us)
            case Sleep():
                return sleep_suspension(turn, operation, self.writer.dbclock.now_us())
            case AwaitSignal():
                return self._await_signal(turn, operation)
            case _:
                assert_never(operation)

    @staticmethod
    def _prepare_calls(turn: Turn, operation: CallSteps) -> Answer:
        missing = [call for call in operation.calls if turn.history.at(call.at.seq) is None]
        turn.commands.extend(call_command(call, attempt=1) for call in missing)
        return Answer()

    def _suspend(self, turn: Turn, operation: Operation, suspension: Suspension) -> Finish | None:
        """End the turn; ``None`` when something happened meanwhile and the operation must be looked at again."""
        if suspension.overdue:
            self._fail_overdue(turn, suspension)
            return None
        if suspension.hold:
            return self._hold(turn, suspension)
        decision = Decision(
            status="continue",
            commands=(*turn.pending_commands(), *suspension.commands),
            wake_at_us=suspension.wake_at_us,
            waiting_on=suspension.waiting_on,
        )
        if self.apply(turn, decision):
            return Finish(verdict=Verdict.SUSPENDED, decision=decision)
        self._look_again(turn, operation)
        return None

    def _hold(self, turn: Turn, suspension: Suspension) -> Finish:
        turn.commands.extend(suspension.commands)
        self.writer.hold(turn, suspension.waiting_on)
        return Finish(verdict=Verdict.HELD, look_at_us=suspension.wake_at_us)

    def _fail_overdue(self, turn: Turn, suspension: Suspension) -> None:
        writes = []
        for call, failure in suspension.overdue:
            record = turn.history.at(call.at.seq)
            attempts = record.attempts if record is not None else 1
            command = failed_attempt(
                call, replace(failure, attempts=attempts), attempts, self.local.ids.random(), turn.now_us
            )
            writes.append(checkpoint_of(turn.claim, command, turn.now_us))
        self.writer.write(turn, writes)
        self.writer.read_back(turn, min(write.seq for write in writes))

    def _look_again(self, turn: Turn, operation: Operation) -> None:
        """Begin another turn under the same lease: clear the stamp, then read what came."""
        began_us = self.writer.while_held(turn, lambda: self.writer.store.begin_turn(turn.lease))
        if began_us is None:
            raise LeaseLost(turn.lease.run_id)
        self.refresh(turn, operation, began_us)

    def refresh(self, turn: Turn, operation: Operation, now_us: int) -> None:
        """Read what was recorded from the first position that the body waits for."""
        first = min(position.seq for position in positions_of(operation))
        stored = self.writer.while_held(turn, lambda: self.writer.store.read_history_from(turn.lease.run_pk, first))
        turn.history.add(stored)
        turn.now_us = now_us

    def apply(self, turn: Turn, decision: Decision) -> bool:
        """Write the end of a turn.

        Returns:
            Whether it was written; if not, the run carries a stamp and the lease is kept.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        end, rows = self.writer.applier.end_of(turn.claim, decision, self.writer.dbclock.now_us())
        done = self.writer.while_held(turn, lambda: self.writer.store.end_turns([end])[0])
        return self._applied(turn, done, rows)

    def _applied(self, turn: Turn, done: bool, rows: Translation) -> bool:
        if not done and self.writer.while_held(turn, lambda: self.writer.store.holds(turn.lease)):
            return False
        if not done and not self.writer.while_held(turn, lambda: self.writer.store.released(turn.lease)):
            raise LeaseLost(turn.lease.run_id)
        turn.forget_commands()
        self.writer.holdings.drop(turn.lease)
        self.writer.applier.transport.send(rows.tasks)
        return True

    def _await_signal(self, turn: Turn, operation: AwaitSignal) -> Answer | Finish:
        self.writer.flush(turn)
        record = turn.history.at(operation.at.seq)
        now_us = self.writer.dbclock.now_us()
        wake_at_us = record.wake_at_us if record is not None else deadline_us(operation, now_us)
        waiting = WaitSignalCommand(
            seq=operation.at.seq, name=operation.at.name, tokens=operation.tokens, wake_at_us=wake_at_us
        )
        decision = Decision(
            status="continue", commands=(waiting,), wake_at_us=wake_at_us, waiting_on=f"signal {operation.at.name}"
        )
        timed_out = record is not None and wake_at_us is not None and wake_at_us <= turn.now_us
        return self._take_signal(turn, operation, decision, timed_out=timed_out)

    def _take_signal(
        self, turn: Turn, operation: AwaitSignal, decision: Decision, *, timed_out: bool
    ) -> Answer | Finish:
        lease = turn.lease
        end, rows = self.writer.applier.end_of(turn.claim, decision, self.writer.dbclock.now_us())
        waiting = rows.checkpoints[0]
        otherwise = timed_out_wait(waiting, operation) if timed_out else end
        taken = self.writer.while_held(
            turn, lambda: self.writer.store.take_signal(lease, operation.tokens, waiting, otherwise)
        )
        if taken.checkpoint is not None:
            turn.remember([taken.checkpoint])
            return Answer(outcomes=(record_of(taken.checkpoint).outcome(),))
        if self._applied(turn, taken.suspended, rows):
            return Finish(verdict=Verdict.SUSPENDED, decision=decision)
        self._look_again(turn, operation)
        return self._await_signal(turn, operation)

    def _end(self, turn: Turn, workflow: Workflow[..., Any], event: Returned | Raised) -> Finish:
        if isinstance(event, Raised) and isinstance(event.error, StoredValueUnreadable):
            return self._stay(turn, event.error)
        decision = self._final(turn, workflow, event)
        while not self.apply(turn, decision):
            logger.debug("The end of a run is written again", extra={"run_id": turn.lease.run_id})
        return Finish(verdict=Verdict.ENDED, decision=decision)

    def _final(self, turn: Turn, workflow: Workflow[..., Any], event: Returned | Raised) -> Decision:
        commands = turn.pending_commands()
        if isinstance(event, Returned) and turn.history.last_seq() >= turn.context.next_seq:
            event = Raised(ended_early(turn))
        if isinstance(event, Raised):
            failure = Failure.from_exception(event.error, seq=seq_of(event.error))
            return Decision(status="failed", commands=commands, failure=failure)
        where = f"result of run {turn.lease.run_id!r}"
        try:
            output = workflow.binding.encode_result(event.value, where=where, limit_bytes=self.limit_bytes)
        except PayloadError as problem:
            return Decision(status="failed", commands=commands, failure=Failure.from_exception(problem))
        return Decision(status="completed", commands=commands, output=output)

    def _stay(self, turn: Turn, unreadable: StoredValueUnreadable) -> Finish:
        logger.error("A stored value does not fit the code", extra={"run_id": turn.lease.run_id})
        decision = Decision(
            status="continue",
            commands=turn.pending_commands(),
            waiting_on="code that fits",
            note=str(unreadable.problem),
        )
        while not self.apply(turn, decision):
            self.writer.while_held(turn, lambda: self.writer.store.begin_turn(turn.lease))
        return Finish(verdict=Verdict.ENDED, decision=None)


def ended_early(turn: Turn) -> NonDeterminismError:
    """Return the error of a body that came to its end before its history did."""
    record = turn.history.at(turn.context.next_seq)
    name, kind = ("another operation", "unknown") if record is None else (record.name, record.kind.value)
    return NonDeterminismError(turn.lease.run_id, turn.context.next_seq, name, kind, "the end of the body", "end")


def seq_of(error: BaseException) -> int | None:
    """Return the position whose failure led to an exception: its own, else that of what it was raised from."""
    link: BaseException | None = error
    for _ in range(CAUSE_LINKS):
        if link is None:
            return None
        seq = getattr(link, "seq", None)
        if isinstance(seq, int):
            return seq
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return None


def deadline_us(operation: AwaitSignal, now_us: int) -> int | None:
    """Return when a wait for a signal ends without one."""
    return None if operation.timeout_us is None else now_us + operation.timeout_us


def timed_out_wait(waiting: CheckpointWrite, operation: AwaitSignal) -> CheckpointWrite:
    """Return the checkpoint of a wait whose time has passed."""
    failure = Failure(
        kind="WaitTimeout",
        code=WAIT_TIMEOUT,
        message=f"no signal came on {operation.at.name!r} in time",
        retryable=False,
        seq=operation.at.seq,
    )
    return replace(waiting, status=CheckpointStatus.FAILED, error=failure.to_json())
