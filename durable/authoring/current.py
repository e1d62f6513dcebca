"""What a step can ask and tell while it is executed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from durable.authoring import codec
from durable.core.clock import Clock
from durable.core.errors import OperationRefused, StepCancelled
from durable.wire.messages import StepEvent

MAX_EVENTS = 200
"""Only the last so many lines and events of an attempt are kept."""

MAX_MESSAGE_CHARACTERS = 2_000

EventStatus = Literal["ok", "failed", "skipped"]

_current: ContextVar[StepContext] = ContextVar("durable_current_step")


class StepContext:
    """Know the attempt that is being executed.

    Args:
        run_id: The run.
        step_id: ``"<run id>:<seq>"``.
        attempt: Which attempt this is, from 1.
        clock: Stamps events.
        is_cancelled: Tells whether the run was cancelled; called whenever the step asks.
        beat: Takes the JSON text of the progress (None when none was given) of each heartbeat.
        last_progress: What the previous attempt last reported, plain JSON.
    """

    def __init__(
        self,
        *,
        run_id: str,
        step_id: str,
        attempt: int,
        clock: Clock,
        is_cancelled: Callable[[], bool] = lambda: False,
        beat: Callable[[str | None], None] = lambda progress: None,
        last_progress: Any = None,
    ) -> None:
        self.run_id = run_id
        self.step_id = step_id
        self.attempt = attempt
        self.last_progress = last_progress
        self.logger: logging.LoggerAdapter[logging.Logger] = _CollectingLogger(self)
        self._clock = clock
        self._is_cancelled = is_cancelled
        self._beat = beat
        self._events: deque[StepEvent] = deque(maxlen=MAX_EVENTS)

    @property
    def cancelled(self) -> bool:
        """Tell whether the run was cancelled."""
        return self._is_cancelled()

    @property
    def events(self) -> list[StepEvent]:
        """Return what was logged and recorded so far, the last 200."""
        return list(self._events)

    def raise_if_cancelled(self) -> None:
        """Stop here when the run was cancelled.

        Raises:
            StepCancelled: The run was cancelled.
        """
        if self._is_cancelled():
            raise StepCancelled(self.step_id)

    def heartbeat(self, progress: Any = None) -> None:
        """Tell that the step is alive, and how far it is; the next attempt finds it in ``last_progress``.

        Args:
            progress: Any value that JSON can carry.

        Raises:
            StepCancelled: The run was cancelled.
            PayloadError: The progress cannot be carried.
        """
        self.raise_if_cancelled()
        text = None if progress is None else codec.encode(progress, where=f"heartbeat of step {self.step_id}")
        self._beat(text)

    def record_event(self, name: str, status: EventStatus, data: Any = None) -> None:
        """Keep the outcome of a sub-process with the step.

        Args:
            name: What the sub-process is called.
            status: How it ended.
            data: Any value that JSON can carry.

        Raises:
            PayloadError: The data cannot be carried.
        """
        where = f"event {name!r} of step {self.step_id}"
        plain = codec.parse(codec.encode(data, where=where), where=where)
        level = "error" if status == "failed" else "info"
        self._add(level, f"{name}: {status}", name=name, status=status, data=plain)

    def _add(self, level: str, message: str, **facts: Any) -> None:
        at_ms = self._clock.now_us() // 1_000
        self._events.append(StepEvent(at=at_ms, level=level, message=message[:MAX_MESSAGE_CHARACTERS], **facts))


class _CollectingLogger(logging.LoggerAdapter[logging.Logger]):
    """Pass lines on to the logger ``durable.step``, and keep them for the checkpoint."""

    def __init__(self, context: StepContext) -> None:
        super().__init__(logging.getLogger("durable.step"), {"run_id": context.run_id, "step_id": context.step_id})
        self._context = context

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self._context._add(_level_name(level), _render(msg, args))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, msg, *args, **kwargs)


def _level_name(level: int) -> str:
    if level >= logging.ERROR:
        return "error"
    if level >= logging.WARNING:
        return "warn"
    return "info" if level >= logging.INFO else "debug"


def _render(msg: object, args: tuple[object, ...]) -> str:
    record = logging.LogRecord("durable.step", logging.INFO, "", 0, msg, args, None)
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  # logging itself reports a line that cannot be formatted; it must not fail the step
        return str(msg)


def current_step() -> StepContext:
    """Return the context of the step that is being executed.

    Raises:
        OperationRefused: No step is being executed in this thread or task.
    """
    context = _current.get(None)
    if context is None:
        raise OperationRefused(
            "current_step()",
            "no step is being executed here",
            "Call it in the function of a step, in its own thread; in a unit test, inside step_context(…).",
        )
    return context


@contextmanager
def step_context(context: StepContext) -> Iterator[StepContext]:
    """Make this the context of the step that is being executed inside the block."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
