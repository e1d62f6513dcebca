"""Reasons to end a turn: what must be written so that the run is looked at again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from durable.core.durations import to_us
from durable.core.failure import Failure
from durable.engine.turn import Turn
from durable.replay.decision import CallCommand, Command, RecordCommand, SleepCommand
from durable.replay.history import CheckpointRecord
from durable.replay.operations import AwaitSteps, CallSteps, Position, Sleep, StepCall
from durable.replay.plans import STEP_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """Why a body cannot go on now.

    Attributes:
        commands: What is to be written.
        wake_at_us: When to look again at the latest.
        waiting_on: What for, for people.
        hold: The lease is kept, because a dispatched step has a time limit.
        overdue: Steps whose time limit has passed, with how each failed.
    """

    commands: tuple[Command, ...] = ()
    wake_at_us: int | None = None
    waiting_on: str = ""
    hold: bool = False
    overdue: tuple[tuple[StepCall, Failure], ...] = ()


def retry_suspension(
    at: Position | RecordCommand, retry_at_us: int, command: RecordCommand | None = None
) -> Suspension:
    """Wait for the next attempt of a local step."""
    return Suspension(
        commands=() if command is None else (command,), wake_at_us=retry_at_us, waiting_on=f"retry of {at.name}"
    )


def sleep_suspension(turn: Turn, operation: Sleep, now_us: int) -> Suspension:
    """Wait for a time to pass; the deadline is reckoned once and kept."""
    record = turn.history.at(operation.at.seq)
    if record is not None and record.wake_at_us is not None:
        return Suspension(wake_at_us=record.wake_at_us, waiting_on="timer")
    wake_at_us = operation.until_us if operation.until_us is not None else now_us + (operation.delay_us or 0)
    command = SleepCommand(seq=operation.at.seq, name=operation.at.name, wake_at_us=wake_at_us)
    return Suspension(commands=(command,), wake_at_us=wake_at_us, waiting_on="timer")


def call_command(call: StepCall, attempt: int) -> CallCommand:
    """Return the command that dispatches an attempt of a step."""
    return CallCommand(
        seq=call.at.seq,
        name=call.at.name,
        queue=call.queue,
        partition=call.partition,
        input=call.input,
        attempt=attempt,
        policy=call.policy,
        priority=call.priority,
        parallel_group=call.parallel_group,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWait:
    """Looks at the steps that a turn waits for.

    Attributes:
        owner: This instance; a beat that it stored itself gives no allowance.
        allowance_us: How far a beat that another instance heard may lie behind what it stored.
        heard_at_us: When a step that is executed in this instance last beat, by step id.
    """

    owner: str
    allowance_us: int
    heard_at_us: Callable[[str], int | None]

    def suspension(self, turn: Turn, operation: CallSteps | AwaitSteps, now_us: int) -> Suspension:
        """Return what to dispatch, what has run out of time, and when to look again."""
        commands: list[Command] = []
        overdue: list[tuple[StepCall, Failure]] = []
        deadlines: list[int] = []
        hold = False
        prepared = {command.seq for command in turn.commands}
        for call in operation.calls:
            record = turn.history.at(call.at.seq)
            if record is not None and record.settled:
                continue
            if call.at.seq in prepared:
                window_us, since_us = first_window_us(call), now_us
            elif record is None or self._is_due_again(record, now_us):
                commands.append(call_command(call, attempt=record.attempts if record else 1))
                window_us, since_us = first_window_us(call), now_us
            elif record.enqueued_at_us is None:
                deadlines.append(record.wake_at_us or now_us)
                continue
            else:
                window_us, since_us = self._window(turn, call, record)
            if window_us is None:
                continue
            hold = True
            deadlines.append(since_us + window_us)
            if since_us + window_us <= now_us:
                overdue.append((call, silence(call, window_us)))
        return Suspension(
            commands=tuple(commands),
            wake_at_us=min(deadlines, default=None),
            waiting_on=waiting_text(operation),
            hold=hold,
            overdue=tuple(overdue),
        )

    @staticmethod
    def _is_due_again(record: CheckpointRecord, now_us: int) -> bool:
        return record.enqueued_at_us is None and (record.wake_at_us is None or record.wake_at_us <= now_us)

    def _window(self, turn: Turn, call: StepCall, record: CheckpointRecord) -> tuple[int | None, int]:
        enqueued_us = record.enqueued_at_us or 0
        heard_us = self.heard_at_us(f"{turn.lease.run_id}:{call.at.seq}") or 0
        beat_us = max(record.last_heartbeat_at_us or 0, heard_us)
        if beat_us < enqueued_us:
            return first_window_us(call), enqueued_us
        if call.timeout is None:
            return None, beat_us
        own = heard_us == beat_us or record.beat_by == self.owner
        return to_us(call.timeout) + (0 if own else self.allowance_us), beat_us


def first_window_us(call: StepCall) -> int | None:
    """Return how long a dispatched step may lie there until its first beat."""
    limit = call.pickup_timeout or call.timeout
    return None if limit is None else to_us(limit)


def silence(call: StepCall, window_us: int) -> Failure:
    """Return the failure of a step of which nothing was heard."""
    return Failure(
        kind="StepTimeout",
        code=STEP_TIMEOUT,
        message=f"nothing was heard of step {call.at.name!r} for {window_us / 1_000_000:g} s",
        retryable=True,
        seq=call.at.seq,
    )


def waiting_text(operation: CallSteps | AwaitSteps) -> str:
    """Return what a wait for steps is called in lists."""
    names = sorted({call.at.name for call in operation.calls})
    more = f" (+{len(operation.calls) - 1})" if len(operation.calls) > 1 else ""
    return f"step {names[0]}{more}"
