"""The messages between instances, as frozen objects and as JSON text.

Keys are camelCase on the wire, instants are epoch milliseconds, absent means "none". Unknown keys are ignored, so that
a newer sender does not stop an older receiver.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NoReturn, TypeVar

import msgspec

from durable.core.errors import MalformedMessage, PayloadError

T = TypeVar("T")

Number = int | float
"""Instants in epoch milliseconds, which JavaScript may send with a fraction."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Share the shape of all messages."""


class WireError(_Message, frozen=True, kw_only=True):
    """Carry a failure as data.

    Attributes:
        message: For people.
        code: For programs.
        retryable: False stops retries; absent leaves it to the policy.
        details: Whatever else the sender knows.
    """

    message: str
    code: str | None = None
    retryable: bool | None = None
    details: Any = None


class RemoteTask(_Message, frozen=True, kw_only=True):
    """Ask a worker to execute a step once.

    Attributes:
        run_id: The run.
        seq: Position of the step in the run.
        name: Name of the step.
        step_id: ``"<run id>:<seq>"``.
        group: Routing token.
        input: The step's input, plain JSON.
        attempt: Which attempt this is, from 1.
        priority: Higher first; absent when the call has none.
        transport: Name of the transport that carries it.
        traceparent: W3C trace context.
        context: Values that travel along with the run.
    """

    run_id: str
    seq: int
    name: str
    step_id: str
    group: str
    input: Any
    attempt: int
    priority: Number | None = None
    transport: str | None = None
    traceparent: str | None = None
    context: dict[str, Any] | None = None


class StepEvent(_Message, frozen=True, kw_only=True):
    """Tell what happened inside a step: a line of its log, or the outcome of a sub-process.

    Attributes:
        at: Epoch milliseconds.
        level: ``debug``, ``info``, ``warn``, ``error``.
        message: For people.
        sub_id: Which sub-process it belongs to.
        name: Name of the sub-process.
        group: Group of the sub-process.
        status: How the sub-process ended.
        phase: Where in its life the sub-process stands.
        data: Whatever else the step recorded, plain JSON.
    """

    at: Number
    level: str
    message: str
    sub_id: str | None = None
    name: str | None = None
    group: str | None = None
    status: Literal["ok", "failed", "skipped"] | None = None
    phase: str | None = None
    data: Any = None


class StepResult(_Message, frozen=True, kw_only=True):
    """Answer a ``RemoteTask``."""

    run_id: str
    seq: int
    step_id: str
    status: Literal["completed", "failed"]
    output: Any = None
    error: WireError | None = None
    started_at: Number | None = None
    events: list[StepEvent] | None = None


class Heartbeat(_Message, frozen=True, kw_only=True):
    """Tell that a step is still being worked on, and how far it is."""

    run_id: str
    seq: int
    step_id: str | None = None
    group: str = ""
    progress: Any = None


class HistoryEvent(_Message, frozen=True, kw_only=True):
    """Tell a remote workflow worker one thing that already happened."""

    seq: int
    kind: Literal["step", "call", "timer", "signal", "child"]
    name: str | None = None
    output: Any = None
    error: WireError | None = None


class PendingSignal(_Message, frozen=True, kw_only=True):
    """Carry a signal that arrived for a position the body has not reached."""

    seq: int
    signal: str
    payload: Any = None


class WorkflowTask(_Message, frozen=True, kw_only=True):
    """Ask a worker for one turn of a workflow whose body it holds."""

    task_id: str
    run_id: str
    workflow: str
    workflow_version: str
    input: Any
    history: list[HistoryEvent]
    pending_signals: list[PendingSignal] | None = None
    group: str
    attempt: int
    priority: Number | None = None
    transport: str | None = None
    traceparent: str | None = None


class Call(_Message, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """Command: dispatch a step and wait for its result."""

    seq: int
    name: str
    group: str
    input: Any = None
    parallel_group: str | None = None


class RecordStep(_Message, frozen=True, kw_only=True, tag_field="kind", tag="recordStep"):
    """Command: keep the outcome of a step that the worker ran itself."""

    seq: int
    name: str
    output: Any = None
    error: WireError | None = None
    started_at: Number | None = None
    finished_at: Number | None = None
    events: list[StepEvent] | None = None
    parallel_group: str | None = None


class Sleep(_Message, frozen=True, kw_only=True, tag_field="kind", tag="sleep"):
    """Command: wake the run after so many milliseconds."""

    seq: int
    ms: Number


class WaitSignal(_Message, frozen=True, kw_only=True, tag_field="kind", tag="waitSignal"):
    """Command: wake the run when a signal arrives."""

    seq: int
    signal: str


class StartChild(_Message, frozen=True, kw_only=True, tag_field="kind", tag="startChild"):
    """Command: start another workflow and wait for its result."""

    seq: int
    workflow: str
    input: Any = None
    parallel_group: str | None = None


Command = Call | RecordStep | Sleep | WaitSignal | StartChild
"""What a turn asks for."""


class WorkflowDecision(_Message, frozen=True, kw_only=True):
    """Answer a ``WorkflowTask``."""

    task_id: str
    run_id: str
    status: Literal["continue", "completed", "failed", "cancelled"]
    commands: list[Command]
    output: Any = None
    error: WireError | None = None


def encode(message: msgspec.Struct) -> str:
    """Return a message as JSON text.

    The standard library writes it, because msgspec refuses lone surrogates and turns NaN into null.

    Raises:
        PayloadError: A value inside cannot be carried by JSON.
    """
    plain = msgspec.to_builtins(message)
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise PayloadError(type(message).__name__, "$", str(error)) from error
    return text


def decode(text: str | bytes, kind: type[T]) -> T:
    """Read a message.

    Args:
        text: JSON text, or its UTF-8 bytes.
        kind: The class of the message.

    Raises:
        MalformedMessage: The text is no JSON, or not such a message.
    """
    try:
        return msgspec.convert(json.loads(text, parse_constant=_refuse_constant), kind)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise MalformedMessage(kind.__name__, str(error)) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
