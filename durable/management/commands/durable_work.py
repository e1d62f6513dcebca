"""``manage.py durable_work``: the worker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.engine.worker import Worker, WorkerOptions
from durable.management.base import DurableCommand, WorkerProcess, leave


class Command(DurableCommand):
    """Executes runs and steps, and minds timers and recovery."""

    help = "Executes workflow runs and their steps until it is stopped (SIGTERM or Ctrl-C drain)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the worker."""
        super().add_arguments(parser)
        parser.add_argument("--concurrency", type=int, metavar="N", help="bodies with their local steps at once")
        parser.add_argument("--step-concurrency", type=int, metavar="N", help="dispatched steps at once")
        parser.add_argument("--queues", metavar="A,B", help="serve only these step queues (default: all known steps)")
        parser.add_argument("--no-timers", action="store_true", help="leave timers and recovery to others")
        parser.add_argument("--once", action="store_true", help="do what is due now, then end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the worker."""
        engine = self.engine(options)
        queues = options["queues"].split(",") if options["queues"] else None
        what = WorkerOptions(
            concurrency=options["concurrency"],
            step_concurrency=options["step_concurrency"],
            queues=queues,
            timers=not options["no_timers"],
            once=options["once"],
        )
        worker = Worker(engine, what)
        self.say(self._greeting(worker), options)
        leave(WorkerProcess(worker, lambda line: self.say(line, options)).run())

    def _greeting(self, worker: Worker) -> str:
        engine = worker.engine
        workflows = ", ".join(f"{name}@{version}" for name, version in worker.interest.workflows) or "none"
        steps = ", ".join(engine.registry.step_names()) or "none"
        head = self.style.SUCCESS(f"durable worker {engine.owner[:8]}")
        return (
            f"{head} on {engine.alias!r}\n  workflows: {workflows}\n  steps: {steps}\nReady. Ctrl-C drains and stops."
        )
