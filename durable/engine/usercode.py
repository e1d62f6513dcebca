"""Running the user's code: in a context of its own, and with the connections put right afterwards."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from asgiref.sync import async_to_sync

from durable.authoring.current import StepContext, step_context
from durable.core.errors import OperationRefused
from durable.store.seam import Session


def run_step(
    session: Session,
    context: StepContext,
    call: Callable[[], Any],
    *,
    still_held: Callable[[], None] = lambda: None,
    tidy: bool = True,
) -> Any:
    """Run a step's function and return its result; the coroutine of an async one is run to its end.

    What the function does to context variables (language, time zone) ends with it.

    Args:
        session: The thread's way to the database.
        context: What ``current_step()`` gives inside.
        call: The function.
        still_held: Raises when what entitles to the call has run out; asked at the last moment, because the process may
            have stood still until then.
        tidy: Whether the connections are put right before and afterwards; not inside the store's own transaction.
    """

    def inside() -> Any:
        with step_context(context):
            still_held()
            result = call()
            return async_to_sync(_awaited)(result) if inspect.iscoroutine(result) else result

    if tidy:
        session.freshen()
    try:
        return contextvars.Context().run(inside)
    finally:
        if tidy:
            session.tidy()


async def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await a step; what it hands to threads comes back to the step's own, whose connections are looked after."""
    return await coroutine


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
