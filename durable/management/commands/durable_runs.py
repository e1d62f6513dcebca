"""``manage.py durable_runs``: lists runs, or shows one with its timeline."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from durable import api
from durable.core.errors import RunNotFound
from durable.core.states import RunStatus
from durable.engine.engine import Engine
from durable.management import facts
from durable.management.base import DONE, DurableCommand, add_json_option, refusal
from durable.management.tables import render_facts, render_table, terminal_width
from durable.models import StepCheckpoint, WorkflowRun

DEFAULT_LIMIT = 20


class Command(DurableCommand):
    """Lists runs, or shows one."""

    help = (
        "Lists runs, the newest first; with a run id, shows that run with its timeline. Keys that look like secrets "
        "are masked, except in --json."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the filters."""
        super().add_arguments(parser)
        parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="show this run")
        parser.add_argument("--status", choices=[status.value for status in RunStatus], help="only runs that stand so")
        parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
        parser.add_argument("--namespace", metavar="NAME", help="only runs of this namespace")
        parser.add_argument(
            "--limit", type=int, default=DEFAULT_LIMIT, metavar="N", help=f"how many at most (default: {DEFAULT_LIMIT})"
        )
        add_json_option(parser)

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Print what was asked for."""
        if options["run_id"] is None:
            return self._list(engine, options)
        given = [name for name in ("status", "workflow", "namespace") if options[name] is not None]
        if given:
            raise refusal(f"--{given[0]} filters the list; it has no meaning beside a run id.")
        return self._show(engine, options)

    def _list(self, engine: Engine, options: dict[str, Any]) -> int:
        limit = options["limit"]
        if limit < 1:
            raise refusal(f"--limit takes a whole number from 1, not {limit}.")
        filters = {name: options[name] for name in ("status", "workflow", "namespace")}
        found = api.list_runs(**filters, limit=limit + 1, using=engine.alias)
        runs = found[:limit]
        if options["json"]:
            self.print_json([facts.run_facts(run) for run in runs])
        elif runs:
            self._print_table(runs)
            if len(found) > limit:
                self.say(f"There are more; these are the newest {limit}. See --limit.", options)
        else:
            self.say("No runs." if not any(filters.values()) else "No runs match.", options)
        return DONE

    def _print_table(self, runs: list[WorkflowRun]) -> None:
        now = timezone.now()
        rows = [facts.run_row(run, self.style, now) for run in runs]
        width = terminal_width(self.stdout)
        self.print_lines(render_table(facts.RUN_COLUMNS, rows, heading=self.style.MIGRATE_LABEL, width=width))

    def _show(self, engine: Engine, options: dict[str, Any]) -> int:
        run = WorkflowRun.objects.using(engine.alias).filter(run_id=options["run_id"]).first()
        if run is None:
            raise RunNotFound(options["run_id"])
        checkpoints = api.checkpoints(run.run_id, using=engine.alias)
        if options["json"]:
            payloads = {"input": facts.as_json(run.input), "output": facts.as_json(run.output)}
            timeline = [facts.checkpoint_facts(each) for each in checkpoints]
            self.print_json({**facts.run_facts(run), **payloads, "checkpoints": timeline})
        else:
            self._print_run(engine, run, checkpoints)
        return DONE

    def _print_run(self, engine: Engine, run: WorkflowRun, checkpoints: list[StepCheckpoint]) -> None:
        now, width = timezone.now(), terminal_width(self.stdout)
        details = facts.run_details(run, self.style, now, engine.config.redact)
        self.print_lines(render_facts(details, label=self.style.MIGRATE_LABEL))
        self.stdout.write("")
        if not checkpoints:
            self.stdout.write("It has no checkpoints yet.")
            return
        rows = [facts.checkpoint_row(each, self.style, now) for each in checkpoints]
        self.print_lines(render_table(facts.CHECKPOINT_COLUMNS, rows, heading=self.style.MIGRATE_LABEL, width=width))
