"""``manage.py durable_timers``: minds what is overdue and executes nothing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.engine.engine import Engine
from durable.engine.worker import Worker, WorkerOptions
from durable.management.base import DONE, NOT_ALL_DONE, DurableCommand
from durable.management.process import WorkerProcess


class Command(DurableCommand):
    """Minds timers, recovery and time limits."""

    help = (
        "Puts runs of dead workers back in the queue, ends runs whose time limit has passed and frees step tasks that "
        "nobody works on any more. It executes no workflow and no step."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        super().add_arguments(parser)
        parser.add_argument("--once", action="store_true", help="do what is due now, then end")

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Run a worker that has neither bodies nor steps."""
        worker = Worker(engine, WorkerOptions(concurrency=0, step_concurrency=0, once=options["once"]))
        head = self.style.SUCCESS(f"durable timers {engine.owner[:8]}")
        greeting = f"{head} on the database {engine.alias!r}\nReady. Ctrl-C stops."
        drained = WorkerProcess(worker, lambda line: self.say(line, options)).run(greeting)
        return DONE if drained else NOT_ALL_DONE
