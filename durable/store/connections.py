"""All of Django's connections of the calling thread, as far as user code may leave traces on them."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections

from durable.core.errors import OperationRefused

READS = ("SELECT", "EXPLAIN", "SHOW", "PRAGMA", "WITH")
logger = logging.getLogger("durable.store")


def tidy_connections() -> None:
    """Leave the thread's connections fit for the next unit of work: no open transaction, nothing broken."""
    for connection in connections.all(initialized_only=True):
        is_open = connection.connection is not None  # to ask a closed one for its mode would open it
        if connection.in_atomic_block or (is_open and not connection.get_autocommit()):
            logger.error("A step left a transaction open; it is rolled back", extra={"alias": connection.alias})
            connection.close()
            connections[connection.alias] = connections.create_connection(connection.alias)
        elif connection.errors_occurred:
            connection.close_at = None
            connection.close_if_unusable_or_obsolete()


def drop_ended_connections() -> None:
    """Close the thread's connections that their server has ended, so that user code gets new ones.

    The server is asked only where it has said something on an idle connection, which otherwise it has no reason to.
    """
    for connection in connections.all(initialized_only=True):
        raw = connection.connection
        if raw is None or connection.in_atomic_block or not hasattr(raw, "pgconn"):
            continue
        if raw.closed or (_has_news(raw) and not connection.is_usable()):
            connection.close()


def _has_news(raw: Any) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(raw.pgconn.socket, selectors.EVENT_READ)
        return bool(selector.select(0))


def alias_in_transaction() -> str | None:
    """Return an alias on which this thread has a transaction open."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            return connection.alias
    return None


@contextmanager
def writes_only_to(alias: str) -> Iterator[None]:
    """Refuse writes to other databases than this one inside the block.

    Raises:
        OperationRefused: A statement that is not a read went to another alias.
    """

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
