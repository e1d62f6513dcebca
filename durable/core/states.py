"""The statuses of runs and checkpoints, and the one table of what may follow what."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class RunStatus(StrEnum):
    """Say where a run stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    BLOCKED = "blocked"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD = "dead"


class CheckpointStatus(StrEnum):
    """Say where one durable operation stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class CheckpointKind(StrEnum):
    """Say what a durable operation is."""

    LOCAL = "local"
    REMOTE = "remote"
    SLEEP = "sleep"
    SIGNAL = "signal"
    SIDE_EFFECT = "side_effect"
    TRANSACTION = "transaction"
    CHILD = "child"


TERMINAL: frozenset[RunStatus] = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.DEAD})
"""Statuses that only a retry leaves."""

RETRYABLE: frozenset[RunStatus] = frozenset({RunStatus.FAILED, RunStatus.DEAD, RunStatus.CANCELLED})
"""Statuses that a retry may leave; a completed run can only be forked."""

_LEFT_BY_RETRY = frozenset({RunStatus.PENDING})

TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = MappingProxyType(
    {
        RunStatus.PENDING: frozenset(
            {RunStatus.RUNNING, RunStatus.CANCELLING, RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.DEAD}
        ),
        RunStatus.RUNNING: frozenset(
            {
                RunStatus.PENDING,
                RunStatus.SUSPENDED,
                RunStatus.BLOCKED,
                RunStatus.CANCELLING,
                RunStatus.COMPLETED,
                RunStatus.FAILED,
                RunStatus.CANCELLED,
                RunStatus.DEAD,
            }
        ),
        RunStatus.SUSPENDED: frozenset(
            {
                RunStatus.PENDING,
                RunStatus.RUNNING,
                RunStatus.BLOCKED,
                RunStatus.CANCELLING,
                RunStatus.CANCELLED,
                RunStatus.FAILED,
            }
        ),
        RunStatus.BLOCKED: frozenset(
            {
                RunStatus.PENDING,
                RunStatus.RUNNING,
                RunStatus.SUSPENDED,
                RunStatus.CANCELLING,
                RunStatus.CANCELLED,
                RunStatus.FAILED,
            }
        ),
        RunStatus.CANCELLING: frozenset({RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.DEAD}),
        RunStatus.COMPLETED: frozenset(),
        RunStatus.FAILED: _LEFT_BY_RETRY,
        RunStatus.CANCELLED: _LEFT_BY_RETRY,
        RunStatus.DEAD: _LEFT_BY_RETRY,
    }
)
"""What may follow each status. A write that changes a status names the statuses from which this table allows it."""


def can_change(before: RunStatus, after: RunStatus) -> bool:
    """Tell whether a run may go from one status to another."""
    return after in TRANSITIONS[before]


def origins_of(after: RunStatus) -> frozenset[RunStatus]:
    """Return the statuses from which a run may reach this one."""
    return frozenset(before for before, following in TRANSITIONS.items() if after in following)
