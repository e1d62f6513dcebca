"""The seam over Django's connections.

Statements go to the driver beneath Django's wrapper: on PostgreSQL a plain ``psycopg.Cursor`` with prepared statements
(Django's own cursor costs more than half of the speed), on SQLite the ``sqlite3`` connection. Connections, settings,
``atomic()`` and ``on_commit`` stay Django's. Prepared statements are off where the project says that a pooler stands in
front (``DISABLE_SERVER_SIDE_CURSORS``).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.backends.signals import connection_created

from durable.core.errors import ConfigurationError
from durable.store.connections import alias_in_transaction, drop_ended_connections, tidy_connections, writes_only_to
from durable.store.dialects import Dialect, PostgresqlDialect, SqliteDialect
from durable.store.errors import ConnectionTrouble, TransientTrouble
from durable.store.seam import Counters, Row, Session, Statement

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

SQLITE_BUSY_TIMEOUT_MS = 20_000
SQLITE_TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
STALE_PLAN = "0A000"
"""A migration changed what a prepared statement returns: it fails for as long as the connection lives."""
TRANSIENT_STATES = ("40001", "40P01", "55P03", "57014", "53100", "53200", STALE_PLAN)
LIMIT_IDLING = """
    SELECT set_config('idle_in_transaction_session_timeout', '30s', false)
    WHERE current_setting('idle_in_transaction_session_timeout') = '0'
"""
"""A limit that the project or its server has set stays."""
IDLE = 0
"""libpq's ``PQTRANS_IDLE``: no transaction is open."""
CONNECTION_CLASSES = ("08", "57P", "53300")


class DjangoSession:
    """What both databases share: counters, hooks and the state of the caller's transaction."""

    dialect: Dialect

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.counters = Counters()

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """The calling thread's wrapper."""
        return connections[self.alias]

    def in_transaction(self) -> bool:
        """Tell whether ``atomic()`` is open on this alias in this thread."""
        return self.connection.in_atomic_block

    def after_commit(self, action: Callable[[], None]) -> None:
        """Hang the action on the caller's commit; one that raises harms no other."""
        transaction.on_commit(action, using=self.alias, robust=True)

    def atomic(self) -> AbstractContextManager[None]:
        """Open the ORM's own outermost transaction, for user code that writes beside a checkpoint."""
        return self._atomic()

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        user_code = False
        self.freshen()
        try:
            with transaction.atomic(using=self.alias, durable=True):
                user_code = True
                yield
                user_code = False
        except (OperationalError, InterfaceError) as trouble:  # what a deferred constraint raises is the user's
            if user_code:
                raise
            self.close()
            raise ConnectionTrouble(str(trouble)) from trouble

    def is_exclusive(self) -> bool:
        """Tell whether an open transaction keeps every other writer of the database waiting."""
        return False

    def writes_only_here(self) -> AbstractContextManager[None]:
        """Refuse user code's writes to other databases inside the block."""
        return writes_only_to(self.alias)

    def open_transaction(self) -> str | None:
        """Return an alias on which user code has a transaction open in this thread."""
        return alias_in_transaction()

    def freshen(self) -> None:
        """Close what its server has ended; the next statement opens another."""
        drop_ended_connections()

    def tidy(self) -> None:
        """Put right what user code left on this thread's connections."""
        tidy_connections()

    def prepare_for_work(self) -> None:
        """Nothing is needed by default."""

    def leave_thread(self) -> None:
        """Close every connection of the calling thread."""
        connections.close_all()

    def close(self) -> None:
        """Close the calling thread's connection."""
        if not self.in_transaction():
            self.connection.close()

    def _raw(self) -> Any:
        raise NotImplementedError

    def _usable(self) -> Any:
        """Return the driver's connection, unless the caller's transaction is broken already, as Django would say."""
        if self.in_transaction():
            self.connection.validate_no_broken_transaction()
        return self._raw()

    def _count(self, statement: Statement, *, alone: bool) -> None:
        self.counters.statements += 1
        if alone and statement.writes:
            self.counters.commits += 1


class PostgresqlSession(DjangoSession):
    """PostgreSQL through psycopg 3."""

    dialect: Dialect = PostgresqlDialect()

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        try:
            import psycopg  # noqa: PLC0415  # an extra, which only PostgreSQL needs
        except ImportError as missing:
            raise ConfigurationError(
                "PostgreSQL needs psycopg 3: install django-durable-workflows[postgres]"
            ) from missing
        self._psycopg = psycopg
        self._kept = threading.local()

    def execute(self, statement: Statement, params: Mapping[str, Any]) -> Sequence[Row]:
        """Run one statement, prepared at its first use on a connection."""
        wrapper = self.connection
        raw = wrapper.connection
        if raw is None or raw.closed or wrapper.in_atomic_block:
            raw = self._usable()
        self._count(statement, alone=raw.autocommit and raw.pgconn.transaction_status == IDLE)
        return self._run(raw, statement.rendered(self.dialect), params)

    def prepare_for_work(self) -> None:
        """From now on let the server end a worker's sessions that stand still in a transaction, with their locks."""
        uid = f"durable.idle_limit.{self.alias}"
        connection_created.connect(self._limit_idling, weak=False, dispatch_uid=uid)

    def _limit_idling(self, connection: BaseDatabaseWrapper, **_: object) -> None:
        pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS", False)
        if connection.alias == self.alias and not pooled:
            connection.connection.execute(LIMIT_IDLING)

    def transaction(self) -> AbstractContextManager[None]:
        """Open ``READ COMMITTED`` whatever the project's default: each statement must see what is committed now."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        raw = self._raw()
        if raw.pgconn.transaction_status != IDLE:
            yield
            return
        self._run(raw, "BEGIN ISOLATION LEVEL READ COMMITTED", None)
        try:
            yield
        except BaseException:
            if not raw.closed:
                self._run(raw, "ROLLBACK", None)
            raise
        self.counters.commits += 1
        self._run(raw, "COMMIT", None)

    def _raw(self) -> Any:
        wrapper = self.connection
        if wrapper.connection is not None and wrapper.connection.closed:
            self.close()
        try:
            wrapper.ensure_connection()
        except Exception as trouble:
            raise ConnectionTrouble(str(trouble)) from trouble
        return wrapper.connection

    def _run(self, raw: Any, text: str, params: Mapping[str, Any] | None) -> Sequence[Row]:
        cursor, threshold = self._cursor(raw)
        before = raw.prepare_threshold
        try:
            raw.prepare_threshold = threshold
            cursor.execute(text, params)
            return cursor.fetchall() if cursor.pgresult.nfields else ()
        except self._psycopg.Error as trouble:
            self._translate(raw, trouble)
            with self.connection.wrap_database_errors:
                raise
        finally:
            if not raw.closed:
                raw.prepare_threshold = before

    def _cursor(self, raw: Any) -> tuple[Any, int | None]:
        """Return this thread's cursor on a connection, and how often a statement runs before it is prepared.

        The cursor is kept: to make one costs as much as to run a statement with it.
        """
        kept = self._kept
        if getattr(kept, "raw", None) is not raw:
            pooled = self.connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS", False)
            kept.threshold = None if pooled else 0
            kept.cursor = self._psycopg.Cursor(raw)
            kept.raw = raw
        return kept.cursor, kept.threshold

    def _translate(self, raw: Any, trouble: Any) -> None:
        state = trouble.sqlstate or ""
        if self.in_transaction():
            self.connection.needs_rollback = True
        if raw.closed or raw.broken or state.startswith(CONNECTION_CLASSES):
            self.close()
            raise ConnectionTrouble(str(trouble)) from trouble
        if state == STALE_PLAN:
            self.close()
        if state in TRANSIENT_STATES:
            raise TransientTrouble(str(trouble)) from trouble


class SqliteSession(DjangoSession):
    """SQLite; writers of one process queue for a lock of their own before they meet those of other processes."""

    dialect: Dialect = SqliteDialect()

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._writing = threading.RLock()
        self._working = False
        self._prepared = threading.local()

    def execute(self, statement: Statement, params: Mapping[str, Any]) -> Sequence[Row]:
        """Run one statement on the ``sqlite3`` connection."""
        raw = self._usable()
        alone = not raw.in_transaction
        self._count(statement, alone=alone)
        with self._writing if alone and statement.writes else nullcontext():
            return self._run(raw, statement.rendered(self.dialect), params)

    def transaction(self) -> AbstractContextManager[None]:
        """Open with ``BEGIN IMMEDIATE``: a deferred transaction that upgrades fails at once under WAL."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        raw = self._raw()
        if raw.in_transaction:
            yield
            return
        with self._writing:
            self._run(raw, "BEGIN IMMEDIATE", {})
            try:
                yield
            except BaseException:
                self._run(raw, "ROLLBACK", {})
                raise
            self.counters.commits += 1
            try:
                self._run(raw, "COMMIT", {})
            except TransientTrouble:
                self._run(raw, "ROLLBACK", {})
                raise

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        self._raw()  # the wrapper learns its mode when it connects
        wrapper: Any = self.connection
        mode = wrapper.transaction_mode
        wrapper.transaction_mode = "IMMEDIATE"
        try:
            with self._writing, super()._atomic():
                yield
        finally:
            wrapper.transaction_mode = mode

    def is_exclusive(self) -> bool:
        """There is one writer: a transaction begins immediate."""
        return True

    def prepare_for_work(self) -> None:
        """From now on give each connection what a worker needs: WAL, commits that survive ``kill -9``, patience."""
        self._working = True

    def _raw(self) -> sqlite3.Connection:
        wrapper = self.connection
        try:
            wrapper.ensure_connection()
        except Exception as trouble:
            raise ConnectionTrouble(str(trouble)) from trouble
        raw: sqlite3.Connection = wrapper.connection
        if self._working and getattr(self._prepared, "raw", None) is not raw:
            self._prepare(raw)
        return raw

    def _prepare(self, raw: sqlite3.Connection) -> None:
        self._run(raw, f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}", {})
        with suppress(TransientTrouble):
            self._run(raw, "PRAGMA journal_mode = WAL", {})
        self._run(raw, "PRAGMA synchronous = NORMAL", {})
        self._prepared.raw = raw

    def _run(self, raw: sqlite3.Connection, text: str, params: Mapping[str, Any]) -> Sequence[Row]:
        try:
            return raw.execute(text, params).fetchall()
        except sqlite3.Error as trouble:
            if self.in_transaction():
                self.connection.needs_rollback = True
            if getattr(trouble, "sqlite_errorname", "").startswith(SQLITE_TRANSIENT):
                raise TransientTrouble(str(trouble)) from trouble
            with self.connection.wrap_database_errors:
                raise


def open_session(alias: str) -> Session:
    """Return the session for an alias.

    Raises:
        ConfigurationError: The alias is unknown or its database is not supported.
    """
    vendor = connections[alias].vendor
    if vendor == "postgresql":
        return PostgresqlSession(alias)
    if vendor == "sqlite":
        return SqliteSession(alias)
    raise ConfigurationError(f"durable has no store for the database vendor {vendor!r} of the alias {alias!r}")
