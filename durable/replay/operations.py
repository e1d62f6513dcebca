"""What a body asks of the shell, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from durable.core.failure import Failure
from durable.core.retry import RetryPolicy
from durable.core.states import CheckpointKind

WaitMode = Literal["wait_all", "fail_fast", "settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where in the run an operation stands, and how it must be recorded there."""

    seq: int
    name: str
    kind: CheckpointKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLocal:
    """Run a function in the shell, with retries, and record its result.

    Args:
        at: The position.
        input: The arguments as JSON text.
        call: Runs the function once; an async one returns its coroutine.
        encode: Turns the result into JSON text.
        policy: When to try again.
    """

    at: Position
    input: str
    call: Callable[[], Any]
    encode: Callable[[Any], str]
    policy: RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTransaction:
    """Run a function inside a transaction of the store, together with its checkpoint."""

    at: Position
    input: str
    call: Callable[[], Any]
    encode: Callable[[Any], str]
    policy: RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordValue:
    """Keep a value that must be the same on every replay.

    Args:
        at: The position.
        produce: Makes the value, as JSON text.
        user_code: Whether making it runs code of the user, before which everything earlier must be stored.
    """

    at: Position
    produce: Callable[[], str]
    user_code: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """One dispatched step: where it stands, what it gets, how it is tried."""

    at: Position
    input: str
    queue: str
    policy: RetryPolicy
    partition: str | None = None
    timeout: timedelta | None = None
    pickup_timeout: timedelta | None = None
    priority: int | None = None
    parallel_group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSteps:
    """Dispatch steps; with a mode, also wait for them."""

    calls: tuple[StepCall, ...]
    mode: WaitMode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitSteps:
    """Wait for steps that were dispatched before."""

    calls: tuple[StepCall, ...]
    mode: WaitMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Wait for a time to pass, or for an instant."""

    at: Position
    delay_us: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitSignal:
    """Wait for the first signal on any of the tokens."""

    at: Position
    tokens: tuple[str, ...]
    timeout_us: int | None


Operation = RunLocal | RunTransaction | RecordValue | CallSteps | AwaitSteps | Sleep | AwaitSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one operation ended: with a value as JSON text, or with a failure."""

    seq: int
    output: str | None = None
    failure: Failure | None = None
    settled_order: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a body receives; ``replayed`` tells that nothing was done for it."""

    outcomes: tuple[Outcome, ...] = ()
    replayed: bool = False

    @property
    def only(self) -> Outcome:
        """The outcome of an operation that has one position."""
        return self.outcomes[0]


def positions_of(operation: Operation) -> tuple[Position, ...]:
    """Return the positions that an operation takes."""
    if isinstance(operation, CallSteps | AwaitSteps):
        return tuple(call.at for call in operation.calls)
    return (operation.at,)
