"""What the commands share: the option ``--database``, the engine they work on, errors of one line, and exit codes.

====  =======================================================================================
code  meaning
====  =======================================================================================
0     done
1     the run that was waited for did not complete, not every id could be served, or a worker
      was stopped before everything that had begun was finished
2     it was not done: wrong options, no such run, no tables, a database that does not answer
3     the run that was waited for goes on
130   interrupted
====  =======================================================================================
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from durable.conf import get_config
from durable.core.errors import DurableError
from durable.core.showing import can_be_shown, one_line
from durable.engine.engine import Engine
from durable.engine.instance import get_engine
from durable.management.readiness import require_alias, require_sound_declarations, require_tables, unreachable
from durable.store.errors import StoreTrouble

DONE = 0
NOT_ALL_DONE = 1
REFUSED = 2
STILL_OPEN = 3
INTERRUPTED = 130


class DurableCommand(BaseCommand):
    """A command on one store. It answers on standard output and complains on standard error."""

    # The project's checks print remarks at every verbosity; what would keep this app from working is looked at below.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what every command takes."""
        parser.add_argument(
            "--database", metavar="ALIAS", help="database alias of the store (default: DURABLE['DATABASE'])"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do the command's work; turn what can go wrong into one line and an exit code."""
        alias = options["database"]
        try:
            alias = alias or get_config().database
            code = self.perform(self._ready_engine(alias), options)
        except DurableError as error:
            raise refusal(str(error)) from error
        except (StoreTrouble, DatabaseError, InterfaceError) as error:
            raise refusal(str(unreachable(alias, error))) from error
        except BrokenPipeError:
            _stop_printing()
            code = DONE
        except KeyboardInterrupt:
            code = INTERRUPTED
        if code != DONE:
            sys.exit(code)

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Do the command's work and return the exit code."""
        raise NotImplementedError

    def _ready_engine(self, alias: str) -> Engine:
        require_alias(alias)
        require_sound_declarations()
        require_tables(alias)
        return get_engine(alias)

    def say(self, text: str, options: dict[str, Any]) -> None:
        """Print a line for people, unless they asked for silence."""
        if options["verbosity"] > 0:
            self.stdout.write(text)

    def warn(self, text: str, options: dict[str, Any]) -> None:
        """Print a line that people should see, on standard error, unless they asked for silence."""
        if options["verbosity"] > 0:
            self.stderr.write(self.style.WARNING(text))

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print what was asked for, whatever the verbosity."""
        for line in lines:
            self.stdout.write(line)

    def print_json(self, value: Any) -> None:
        """Print a value for programs."""
        text = json.dumps(value, ensure_ascii=False, indent=2)
        self.stdout.write(text if can_be_shown(text) else json.dumps(value, indent=2))


def add_json_option(parser: CommandParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def refusal(message: str) -> CommandError:
    """Return the error that ends a command which did nothing: one line, exit code 2."""
    return CommandError(one_line(message), returncode=REFUSED)


def _stop_printing() -> None:
    """Let nobody complain at exit that the reader of a pipe has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
