"""Whether a database is ready to be worked on: it can be reached, it has the tables, the migrations are applied."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import quote

from django.core.checks import run_checks
from django.db import DatabaseError, InterfaceError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils.connection import ConnectionDoesNotExist

from durable.checks import TAG
from durable.core.errors import ConfigurationError, MigrationsMissing, StoreUnavailable, nearest
from durable.core.showing import one_line
from durable.models import BufferedSignal, SignalWaiter, StepCheckpoint, TransportMessage, WorkflowRun

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

APP = "durable"
TABLES = (WorkflowRun, StepCheckpoint, SignalWaiter, BufferedSignal, TransportMessage)


def require_alias(alias: str) -> None:
    """Check that the settings have a database of this alias.

    Raises:
        ConfigurationError: They have none.
    """
    try:
        connections[alias]
    except ConnectionDoesNotExist as error:
        close = nearest(alias, connections.settings)
        known = f"Did you mean {close!r}?" if close else f"Known: {', '.join(sorted(connections.settings))}."
        raise ConfigurationError(f"There is no database {alias!r} in settings.DATABASES. {known}") from error


def require_sound_declarations() -> None:
    """Check that this app's system checks find no error.

    Raises:
        ConfigurationError: They find some; tells all of them.
    """
    errors = [each for each in run_checks(tags=[TAG]) if each.is_serious()]
    if errors:
        raise ConfigurationError(" ".join(f"({each.id}) {each.msg} {each.hint or ''}".rstrip() for each in errors))


def require_tables(alias: str) -> None:
    """Check that the store's tables are there and this app's migrations applied, in two statements.

    Raises:
        MigrationsMissing: Something is missing; names the command to run.
        StoreUnavailable: The database cannot be reached; names its address.
    """
    try:
        there = set(connections[alias].introspection.table_names())
        lacking = [model._meta.db_table for model in TABLES if model._meta.db_table not in there]
        unapplied = [] if lacking else unapplied_migrations(connections[alias])
    except (DatabaseError, InterfaceError) as error:
        raise unreachable(alias, error) from error
    if lacking or unapplied:
        raise MigrationsMissing(lacking, migrations=unapplied, database=alias)


def unapplied_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the names of this app's migrations that the database does not record.

    Only this app's folder is listed; Django's own loader imports every migration of the project.
    """
    name, _ = MigrationLoader.migrations_module(APP)
    if name is None:
        return []
    module = import_module(name)
    known = {each.name for each in pkgutil.iter_modules(module.__path__) if each.name[0] not in "_~"}
    applied = {migration for app, migration in MigrationRecorder(connection).applied_migrations() if app == APP}
    return sorted(known - applied)


def unreachable(alias: str, error: Exception) -> StoreUnavailable:
    """Say that a database does not answer: its address without its password, and the driver's reason on one line."""
    password = str(connections[alias].settings_dict.get("PASSWORD") or "")
    reason = one_line(str(error).strip().partition("\n")[0], 300) or type(error).__name__
    if password:
        reason = reason.replace(password, "***")
    return StoreUnavailable(f"{address_of(alias)}: {reason}")


def address_of(alias: str) -> str:
    """Return the address of a database, without its password."""
    connection = connections[alias]
    facts = connection.settings_dict
    name = str(facts.get("NAME") or "")
    if connection.vendor == "sqlite":
        return f"sqlite:{name}"
    user = f"{quote(str(facts['USER']))}@" if facts.get("USER") else ""
    port = f":{facts['PORT']}" if facts.get("PORT") else ""
    return f"{connection.vendor}://{user}{facts.get('HOST') or 'localhost'}{port}/{name}"
