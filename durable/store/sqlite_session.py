"""The seam over a plain ``sqlite3`` connection, with a clock that its owner turns: for simulations.

It knows nothing of Django. One connection serves every thread that takes its turn: ``:memory:`` is one connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from durable.store.dialects import Dialect, SqliteDialect
from durable.store.errors import TransientTrouble
from durable.store.seam import Counters, Row, Statement

CLOCK = "durable_now_us"
TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR")


class SqliteMemorySession:
    """A database in memory.

    Args:
        now_us: The clock: every instant that a statement uses comes from it.
        schema: Statements that make the tables.
    """

    dialect: Dialect = SqliteDialect(name="sqlite-memory", clock=f"{CLOCK}()")

    def __init__(self, now_us: Callable[[], int], schema: str) -> None:
        self.counters = Counters()
        self._raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._raw.create_function(CLOCK, 0, now_us)
        self._raw.executescript(schema)
        self._caller_is_in = False
        self._after_commit: list[Callable[[], None]] = []

    def execute(self, statement: Statement, params: Mapping[str, object]) -> Sequence[Row]:
        """Run one statement."""
        self.counters.statements += 1
        if statement.writes and not self._raw.in_transaction:
            self.counters.commits += 1
        return self._run(statement.rendered(self.dialect), params)

    def _run(self, text: str, params: Mapping[str, object]) -> Sequence[Row]:
        try:
            return self._raw.execute(text, params).fetchall()
        except sqlite3.Error as trouble:
            if getattr(trouble, "sqlite_errorname", "").startswith(TRANSIENT):
                raise TransientTrouble(str(trouble)) from trouble
            raise

    def transaction(self) -> AbstractContextManager[None]:
        """Open a transaction, or join the open one."""
        return nullcontext() if self._raw.in_transaction else self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE", {})
        try:
            yield
        except BaseException:
            self._run("ROLLBACK", {})
            raise
        self.counters.commits += 1
        self._run("COMMIT", {})

    def atomic(self) -> AbstractContextManager[None]:
        """Open the transaction of a caller, or of user code that writes beside a checkpoint."""
        return self._atomic()

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        self._caller_is_in = True
        try:
            with self._transaction():
                yield
        except BaseException:
            self._after_commit.clear()
            raise
        finally:
            self._caller_is_in = False
        actions, self._after_commit = self._after_commit, []
        for action in actions:
            action()

    def prepare_for_work(self) -> None:
        """Nothing is needed."""

    def writes_only_here(self) -> AbstractContextManager[None]:
        """There is no other database."""
        return nullcontext()

    def open_transaction(self) -> str | None:
        """Return a name for the caller's open transaction."""
        return ":memory:" if self._caller_is_in else None

    def freshen(self) -> None:
        """No server can end this connection."""

    def tidy(self) -> None:
        """User code has no way to this connection."""

    def is_exclusive(self) -> bool:
        """There is one writer."""
        return True

    def in_transaction(self) -> bool:
        """Tell whether the caller has a transaction open."""
        return self._caller_is_in

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run an action after the caller's transaction, at once when there is none."""
        if self._caller_is_in:
            self._after_commit.append(action)
        else:
            action()

    def leave_thread(self) -> None:
        """The database lives as long as its connection, which belongs to no thread."""

    def close(self) -> None:
        """The database lives as long as its connection."""

    def dispose(self) -> None:
        """End the database."""
        self._raw.close()
