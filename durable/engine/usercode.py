"""Running the user's code: in a context of its own, and with the connections put right afterwards."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections

from durable.authoring.current import StepContext, step_context
from durable.core.errors import OperationRefused

READS = ("SELECT", "EXPLAIN", "SHOW", "PRAGMA", "WITH")
logger = logging.getLogger("durable.engine")


def run_step(context: StepContext, call: Callable[[], Any], *, tidy: bool = True) -> Any:
    """Run a step's function and return its result; the coroutine of an async one is run to its end.

    What the function does to context variables (language, time zone) ends with it.

    Args:
        context: What ``current_step()`` gives inside.
        call: The function.
        tidy: Whether the connections are put right afterwards; not inside the store's own transaction.
    """

    def inside() -> Any:
        with step_context(context):
            result = call()
            return asyncio.run(result) if inspect.iscoroutine(result) else result

    try:
        return contextvars.Context().run(inside)
    finally:
        if tidy:
            tidy_connections()


def tidy_connections() -> None:
    """Leave the thread's connections fit for the next unit of work: no open transaction, nothing broken."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block or not connection.get_autocommit():
            logger.error("A step left a transaction open; it is rolled back", extra={"alias": connection.alias})
            connection.close()
        elif connection.errors_occurred:
            connection.close_at = None
            connection.close_if_unusable_or_obsolete()


def guard_operations(label: str) -> None:
    """Refuse an operation where a transaction is open: it could neither commit its checkpoint nor wait.

    Raises:
        OperationRefused: A transaction is open on some alias in this thread.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            raise OperationRefused(
                label,
                f"a transaction is open on {connection.alias!r}",
                "Close it first, or put the writes into ctx.transaction().",
            )


@contextmanager
def only_alias(alias: str) -> Iterator[None]:
    """Refuse writes to other databases than this one inside the block."""

    def refuse_writes(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not sql.lstrip("( \n\t").upper().startswith(READS):
            raise OperationRefused(
                "ctx.transaction",
                f"it wrote to the database {context['connection'].alias!r}, which does not commit with {alias!r}",
                "Write to another database in a step of its own.",
            )
        return execute(sql, params, many, context)

    with ExitStack() as stack:
        for connection in connections.all():
            if connection.alias != alias:
                stack.enter_context(connection.execute_wrapper(refuse_writes))
        yield
