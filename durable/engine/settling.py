"""The one judgement on attempts of dispatched steps: completed, to be tried again, or failed for good."""

from __future__ import annotations

from durable.core.durations import to_us
from durable.core.failure import Failure
from durable.core.retry import RetryIn, RetryPolicy, judge
from durable.core.states import CheckpointKind, CheckpointStatus
from durable.replay.decision import RecordCommand
from durable.replay.operations import StepCall


def retry_at_us(failure: Failure, attempt: int, policy: RetryPolicy, draw: float, now_us: int) -> int | None:
    """Return when the next attempt is due, or ``None`` when there is none."""
    verdict = judge(failure, attempt, policy, draw)
    return now_us + to_us(verdict.delay) if isinstance(verdict, RetryIn) else None


def failed_attempt(call: StepCall, failure: Failure, attempt: int, draw: float, now_us: int) -> RecordCommand:
    """Return the checkpoint of an attempt that the holder itself found failed.

    A checkpoint that is pending without having been enqueued is dispatched again at its ``wake_at``.
    """
    again_at_us = retry_at_us(failure, attempt, call.policy, draw, now_us)
    return RecordCommand(
        seq=call.at.seq,
        name=call.at.name,
        kind=CheckpointKind.REMOTE,
        status=CheckpointStatus.FAILED if again_at_us is None else CheckpointStatus.PENDING,
        input=call.input,
        failure=failure,
        attempts=attempt if again_at_us is None else attempt + 1,
        retry_at_us=again_at_us,
        finished_at_us=now_us if again_at_us is None else None,
    )
