"""What the commands share: options, the engine they work on, and how a worker process lives and dies."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from durable.core.errors import ConfigurationError, DurableError, MigrationsMissing
from durable.engine.engine import Engine
from durable.engine.instance import get_engine
from durable.engine.worker import Worker
from durable.models import BufferedSignal, SignalWaiter, StepCheckpoint, TransportMessage, WorkflowRun

TABLES = (WorkflowRun, StepCheckpoint, SignalWaiter, BufferedSignal, TransportMessage)


class DurableCommand(BaseCommand):
    """A command on one store."""

    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what every command takes."""
        parser.add_argument(
            "--database", metavar="ALIAS", help="database alias of the store (default: DURABLE['DATABASE'])"
        )

    def engine(self, options: dict[str, Any]) -> Engine:
        """Return the engine to work on.

        Raises:
            CommandError: Settings are not accepted, or tables are missing.
        """
        try:
            engine = get_engine(options["database"])
            require_tables(engine.alias)
        except DurableError as error:
            raise CommandError(str(error)) from error
        return engine

    def say(self, text: str, options: dict[str, Any]) -> None:
        """Print a line for people, unless they asked for silence."""
        if options["verbosity"] > 0:
            self.stdout.write(text)


def require_tables(alias: str) -> None:
    """Check that the store's tables are there.

    Raises:
        MigrationsMissing: Some are not.
        ConfigurationError: The database cannot be reached.
    """
    try:
        there = set(connections[alias].introspection.table_names())
    except Exception as error:
        raise ConfigurationError(f"The database {alias!r} cannot be reached: {type(error).__name__}.") from error
    missing = [model._meta.db_table for model in TABLES if model._meta.db_table not in there]
    if missing:
        raise MigrationsMissing(missing)


class WorkerProcess:
    """Runs a worker in the main thread until it is told to end.

    SIGTERM and SIGINT drain; a second one ends at once.

    Args:
        worker: What to run.
        say: Prints a line for people.
    """

    def __init__(self, worker: Worker, say: Callable[[str], None]) -> None:
        self._worker = worker
        self._say = say
        self._asked = 0

    def run(self) -> int:
        """Work until told to end; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._worker.start()
        self._worker.run()
        self._say("Draining: what has begun is finished, nothing new is taken.")
        drained = self._worker.drain(lambda: self._asked > 1)
        self._say("Stopped." if drained else "Stopped before everything was finished; it is taken up by others.")
        return 0 if drained else 1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        self._worker.stop()


def leave(code: int) -> None:
    """Leave the process with an exit code, whatever threads are left."""
    if code:
        sys.exit(code)
