"""Running the user's code: in a context of its own, and with the connections put right afterwards."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from durable.authoring.current import StepContext, step_context
from durable.core.errors import OperationRefused
from durable.store.seam import Session


def run_step(session: Session, context: StepContext, call: Callable[[], Any], *, tidy: bool = True) -> Any:
    """Run a step's function and return its result; the coroutine of an async one is run to its end.

    What the function does to context variables (language, time zone) ends with it.

    Args:
        session: The thread's way to the database.
        context: What ``current_step()`` gives inside.
        call: The function.
        tidy: Whether the connections are put right before and afterwards; not inside the store's own transaction.
    """

    def inside() -> Any:
        with step_context(context):
            result = call()
            return asyncio.run(result) if inspect.iscoroutine(result) else result

    if tidy:
        session.freshen()
    try:
        return contextvars.Context().run(inside)
    finally:
        if tidy:
            session.tidy()


def guard_operations(session: Session, label: str) -> None:
    """Refuse an operation where a transaction is open: it could neither commit its checkpoint nor wait.

    Raises:
        OperationRefused: A transaction is open on some alias in this thread.
    """
    alias = session.open_transaction()
    if alias is not None:
        raise OperationRefused(
            label, f"a transaction is open on {alias!r}", "Close it first, or put the writes into ctx.transaction()."
        )


def events_text(context: StepContext) -> str | None:
    """Return what a step logged as JSON text."""
    events: list[Any] = context.events
    return msgspec.json.encode(events).decode() if events else None
