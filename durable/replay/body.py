"""Bodies: a workflow function that runs until it asks for something, and goes on when it is answered."""

from __future__ import annotations

import contextvars
import ctypes
import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from durable.core.errors import BodyDiscarded, OperationRefused
from durable.replay.operations import Answer, Operation

UNWIND_LIMIT = 1000
"""How many operations a body that swallows its discarding may still try before it is left alone."""

_in_body: contextvars.ContextVar[bool] = contextvars.ContextVar("durable_in_body", default=False)


def is_in_body() -> bool:
    """Tell whether the calling code is a workflow body itself, not one of its steps."""
    return _in_body.get()


def _context_of_body() -> contextvars.Context:
    context = contextvars.Context()
    context.run(_in_body.set, True)
    return context


@dataclass(frozen=True, slots=True)
class Returned:
    """The body came to its end."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body ended with an exception."""

    error: BaseException


Event = Operation | Returned | Raised
"""What a body does next."""


class Body(Protocol):
    """A body that is driven."""

    def resume(self, answer: Answer | None) -> Event:
        """Let the body run until its next operation or its end; the first answer is ``None``."""

    def discard(self) -> bool:
        """Unwind the body; return whether it behaved (a bare ``except:`` around an operation does not)."""


def _leave_alone(body: object) -> None:
    """Keep a body that cannot be unwound for ever.

    Collecting it, at the latest when the process ends, would unwind it once more, and that would not end.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(body))


def _called_elsewhere(label: str) -> OperationRefused:
    return OperationRefused(
        label,
        "it was called outside the body's own thread of execution",
        "Call it from the workflow function itself.",
    )


class GreenletBody:
    """A sync body on a greenlet of the thread that resumes it first, and of that thread only."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._greenlet: greenlet | None = None
        self._refusals = 0
        self.closed = False

    def resume(self, answer: Answer | None) -> Event:
        """Switch into the body."""
        if self._greenlet is None:
            self._greenlet = greenlet(self._run_to_end)
            self._greenlet.gr_context = _context_of_body()
            event: Event = self._greenlet.switch()
        else:
            event = self._greenlet.switch(answer)
        return event

    def _run_to_end(self) -> Event:
        try:
            return Returned(self._run())
        except BodyDiscarded:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a body raises is the run's failure
            return Raised(error)

    def enter(self, label: str) -> None:
        """Called where an operation begins: let it begin only in the body itself, and not while that is unwound.

        Raises:
            OperationRefused: It was called from elsewhere.
        """
        running = self._greenlet
        if self.closed:
            self._refuse(running)
        if running is None or getcurrent() is not running:
            raise _called_elsewhere(label)

    def ask(self, operation: Operation) -> Answer:
        """Called inside the body: hand an operation to the shell and wait for its answer."""
        parent = getcurrent().parent
        answer: Answer = parent.switch(operation)  # type: ignore[union-attr]  # a running body has a parent
        return answer

    def _refuse(self, running: greenlet | None) -> None:
        """End an operation of a body that is unwound; one that goes on and on never gets the thread back."""
        self._refusals += 1
        if self._refusals > UNWIND_LIMIT and running is not None and getcurrent() is running:
            while True:
                running.parent.switch(None)  # type: ignore[union-attr]  # a running body has a parent
        raise BodyDiscarded

    def discard(self) -> bool:
        """Throw the body away; it must be called in the body's thread."""
        self.closed = True
        body = self._greenlet
        if body is None or body.dead:
            return True
        body.parent = getcurrent()
        try:
            body.throw(BodyDiscarded)
        except BodyDiscarded:
            return True
        if not body.dead:
            _leave_alone(body)
        return False


class CoroutineBody:
    """An ``async def`` body, driven by ``send``; it may move between threads."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._start = start
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._context = _context_of_body()
        self._driver: greenlet | None = None
        self._refusals = 0
        self.closed = False

    def resume(self, answer: Answer | None) -> Event:
        """Send the answer into the coroutine."""
        try:
            asked = self._context.run(self._send, answer)
        except StopIteration as end:
            return Returned(end.value)
        except BodyDiscarded:
            raise
        except RuntimeError as error:
            return Raised(_without_loop(error) or error)
        except BaseException as error:  # noqa: BLE001  # whatever a body raises is the run's failure
            return Raised(error)
        if isinstance(asked, Operation):
            return asked
        refused = _foreign_await(_name_of_awaited(self._coroutine, asked))
        self.discard()
        return Raised(refused)

    def _send(self, answer: Answer | None) -> Any:
        self._driver = getcurrent()
        if self._coroutine is None:
            self._coroutine = self._start()
        return self._coroutine.send(answer)

    def enter(self, label: str) -> None:
        """Called where an operation begins: let it begin only in the body itself.

        Raises:
            OperationRefused: It was called from elsewhere.
        """
        if not self.closed and getcurrent() is not self._driver:
            raise _called_elsewhere(label)

    def refuse(self) -> Iterator[None]:
        """End an operation of a body that is unwound; one that goes on and on never gets the thread back."""
        self._refusals += 1
        while self._refusals > UNWIND_LIMIT:
            yield None
        raise BodyDiscarded

    def ask_later(self, operation: Operation) -> _Asking:
        """Return what the body awaits to hand an operation to the shell."""
        return _Asking(self, operation)

    def discard(self) -> bool:
        """Throw the body away."""
        self.closed = True
        coroutine = self._coroutine
        if coroutine is None or inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
            return True
        for _ in range(UNWIND_LIMIT):
            try:
                self._context.run(coroutine.throw, BodyDiscarded)
            except BodyDiscarded:
                return True
            except BaseException:  # noqa: BLE001  # it returned, or turned its discarding into an error of its own
                return False
        _leave_alone(coroutine)
        return False


def _foreign_await(name: str) -> OperationRefused:
    return OperationRefused(
        f"await {name}", "a workflow body can only await its context's operations", "Put it into a step."
    )


def _name_of_awaited(coroutine: Any, yielded: object) -> str:
    awaited = getattr(coroutine, "cr_await", None)
    return getattr(awaited, "__qualname__", None) or type(yielded if awaited is None else awaited).__name__


def _without_loop(error: RuntimeError) -> OperationRefused | None:
    """Return the refusal of an ``await`` that looked for an event loop and found none, else ``None``."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    outside = [frame for frame in frames if str(frame.f_globals.get("__name__")).partition(".")[0] == "asyncio"]
    if not outside or outside[-1] is not frames[-1]:
        return None
    refused = _foreign_await(f"asyncio's {outside[0].f_code.co_qualname}")
    refused.__cause__ = error
    return refused


class _Asking:
    def __init__(self, body: CoroutineBody, operation: Operation) -> None:
        self._body = body
        self._operation = operation

    def __await__(self) -> Any:
        if self._body.closed:
            yield from self._body.refuse()
        answer: Answer = yield self._operation
        return answer
