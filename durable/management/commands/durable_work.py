"""``manage.py durable_work``: the worker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.core.errors import nearest
from durable.engine.engine import Engine
from durable.engine.worker import Worker, WorkerOptions
from durable.management.base import DONE, NOT_ALL_DONE, DurableCommand, refusal
from durable.management.process import WorkerProcess, run_reloading
from durable.management.wording import count, listed


class Command(DurableCommand):
    """Executes runs and steps, and minds timers and recovery."""

    help = (
        "Executes workflow runs and their steps until it is stopped: SIGTERM or Ctrl-C finish what has begun, "
        "a second one ends at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the worker."""
        super().add_arguments(parser)
        parser.add_argument(
            "--concurrency", type=int, metavar="N", help="bodies with their local steps at once (default: the setting)"
        )
        parser.add_argument(
            "--step-concurrency", type=int, metavar="N", help="dispatched steps at once (default: the setting)"
        )
        parser.add_argument("--queues", metavar="A,B", help="serve only these step queues (default: all known steps)")
        parser.add_argument("--no-timers", action="store_true", help="leave timers and recovery to others")
        parser.add_argument("--once", action="store_true", help="do what is due now, then end")
        parser.add_argument("--reload", action="store_true", help="start again when code changes; for development")

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Run the worker."""
        what = self._options(engine, options)
        if options["reload"]:
            run_reloading(lambda: Worker(engine, what), lambda line: self.say(line, options), self._greeting)
            return DONE
        worker = Worker(engine, what)
        drained = WorkerProcess(worker, lambda line: self.say(line, options)).run(self._greeting(worker))
        return DONE if drained else NOT_ALL_DONE

    def _options(self, engine: Engine, options: dict[str, Any]) -> WorkerOptions:
        for name in ("concurrency", "step_concurrency"):
            if options[name] is not None and options[name] < 1:
                raise refusal(f"--{name.replace('_', '-')} takes a whole number from 1, not {options[name]}.")
        if options["reload"] and options["once"]:
            raise refusal("--reload and --once exclude each other.")
        return WorkerOptions(
            concurrency=options["concurrency"],
            step_concurrency=options["step_concurrency"],
            queues=self._queues(engine, options),
            timers=not options["no_timers"],
            once=options["once"],
        )

    def _queues(self, engine: Engine, options: dict[str, Any]) -> list[str] | None:
        if options["queues"] is None:
            return None
        queues = [name for each in options["queues"].split(",") if (name := each.strip())]
        if not queues:
            raise refusal("--queues takes names with commas between them.")
        steps = [engine.registry.step(name) for name in engine.registry.step_names()]
        known = {step.config.queue or step.name for step in steps}
        for queue in queues:
            if queue not in known:
                close = nearest(queue, known)
                hint = f"Did you mean {close!r}?" if close else f"Known: {', '.join(sorted(known)) or 'none'}."
                self.warn(f"No step of this project goes to the queue {queue!r}. {hint}", options)
        return queues

    def _greeting(self, worker: Worker) -> str:
        engine = worker.engine
        workflows = [f"{name}@{version}" for name, version in worker.interest.workflows]
        served = worker.options.queues or engine.registry.step_names()
        drives = (
            count(len(workflows), "workflow") if worker.bodies is not None else "no runs (DURABLE['DRIVE'] is False)"
        )
        lines = [
            f"{self.style.SUCCESS(f'durable worker {engine.owner[:8]}')} on the database {engine.alias!r}",
            f"  drives {drives}{listed(workflows)}",
            f"  serves {count(len(served), 'queue' if worker.options.queues else 'step')}{listed(served)}",
            "Ready. Ctrl-C finishes what has begun and stops.",
        ]
        return "\n".join(lines)
