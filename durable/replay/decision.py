"""What a turn decided, as a value: commands of the wire's kinds, and how the run stands after them.

A turn of this process and a turn of a remote worker end in the same value, and one function of the engine applies it.
Payloads are JSON text here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from durable.core.failure import Failure
from durable.core.retry import RetryPolicy
from durable.core.states import CheckpointKind, CheckpointStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCommand:
    """``call``: dispatch an attempt of a step."""

    seq: int
    name: str
    queue: str
    partition: str | None
    input: str
    attempt: int
    policy: RetryPolicy
    priority: int | None = None
    parallel_group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCommand:
    """``recordStep``: keep what an operation of the body itself came to, or when it is tried again."""

    seq: int
    name: str
    kind: CheckpointKind
    status: CheckpointStatus
    input: str | None = None
    output: str | None = None
    failure: Failure | None = None
    events: str | None = None
    attempts: int = 0
    retry_at_us: int | None = None
    started_at_us: int | None = None
    finished_at_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepCommand:
    """``sleep``: wake the run at an instant."""

    seq: int
    name: str
    wake_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSignalCommand:
    """``waitSignal``: wake the run when a signal comes, or at the latest at ``wake_at_us``."""

    seq: int
    name: str
    tokens: tuple[str, ...]
    wake_at_us: int | None


Command = CallCommand | RecordCommand | SleepCommand | WaitSignalCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a turn ends.

    Attributes:
        status: ``continue`` suspends the run; the others end it.
        commands: What is to be written with it.
        output: The result as JSON text.
        failure: Why the run failed.
        wake_at_us: When a suspended run looks again at the latest; ``None`` leaves it to ``RECONCILE``.
        waiting_on: What it waits for, for people.
        note: Why it cannot go on, for people.
    """

    status: Literal["continue", "completed", "failed", "cancelled"]
    commands: tuple[Command, ...] = ()
    output: str | None = None
    failure: Failure | None = None
    wake_at_us: int | None = None
    waiting_on: str = ""
    note: str = ""

    @property
    def dispatches(self) -> bool:
        """Tell whether steps go out with it."""
        return any(isinstance(command, CallCommand) for command in self.commands)
