"""``manage.py durable_start``: starts a run, and waits for it if asked to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from durable import api
from durable.core.durations import parse_duration
from durable.core.errors import InvalidDuration, ResultTimeout, RunNotFound
from durable.core.states import RunStatus
from durable.engine.engine import Engine
from durable.management import facts
from durable.management.base import (
    DONE,
    NOT_ALL_DONE,
    STILL_OPEN,
    DurableCommand,
    add_json_option,
    refusal,
)
from durable.management.payloads import HELP, read_payload
from durable.models import WorkflowRun

FOR_EVER = "for ever"
ENDINGS = {
    RunStatus.FAILED.value: "failed",
    RunStatus.CANCELLED.value: "was cancelled",
    RunStatus.DEAD.value: "is dead",
}


class Command(DurableCommand):
    """Starts a run."""

    help = (
        "Starts a run of a workflow and prints its id. With --wait, prints its result and ends with 0 when it "
        "completed, 1 when it did not, 3 when it goes on after the given time."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Let the workflow's ``--version`` take the place of Django's."""
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of a start."""
        super().add_arguments(parser)
        parser.add_argument("workflow", help="name of the workflow, such as shop.checkout")
        parser.add_argument(
            "--input",
            metavar="JSON",
            help=f"the workflow's argument, or an object of its arguments by name: {HELP}",
        )
        parser.add_argument("--id", metavar="RUN_ID", help="an id of your own; starting it again is harmless")
        parser.add_argument("--version", metavar="VERSION", help="version of the workflow (default: the newest)")
        parser.add_argument("--namespace", metavar="NAME", help="whose pool runs it")
        parser.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="a tag; may be given again")
        parser.add_argument(
            "--priority", type=int, metavar="N", help="kept with the run; does not change the order of work yet"
        )
        parser.add_argument(
            "--wait", nargs="?", const=FOR_EVER, metavar="TIME", help="wait for the end, at most this long, such as 30s"
        )
        add_json_option(parser)

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Start the run."""
        given = read_payload(options["input"], "--input")
        timeout = _read_timeout(options["wait"])
        there = options["id"] is not None and _exists(engine, options["id"])
        try:
            run = api.start(
                options["workflow"],
                given,
                id=options["id"],
                version=options["version"],
                namespace=options["namespace"],
                tags=options["tags"],
                priority=options["priority"],
                using=engine.alias,
            )
        except TypeError as error:
            raise refusal(f"--input: {error}.") from error
        if not options["json"]:
            what = "There is a run" if there else "Started run"
            self.say(f"{what} {self.style.SUCCESS(run.id)} of {options['workflow']}.", options)
        if options["wait"] is None:
            return self._report(engine, run.id, options)
        return self._wait(engine, run.id, timeout, options)

    def _wait(self, engine: Engine, run_id: str, timeout: timedelta | None, options: dict[str, Any]) -> int:
        try:
            api.wait(run_id, timeout, using=engine.alias)
        except ResultTimeout as error:
            self._report(engine, run_id, options)
            self.warn(str(error), options)
            return STILL_OPEN
        return self._report(engine, run_id, options)

    def _report(self, engine: Engine, run_id: str, options: dict[str, Any]) -> int:
        run = WorkflowRun.objects.using(engine.alias).get(run_id=run_id)
        if options["json"]:
            self.print_json({**facts.run_facts(run), "output": facts.as_json(run.output)})
        elif options["wait"] is not None and run.status == RunStatus.COMPLETED.value:
            self.stdout.write(run.output or "null")
        elif options["wait"] is not None and run.finished_at is not None:
            self.warn(f"It {ENDINGS[run.status]}: {facts.error_line(run.error)}", options)
        ended_badly = run.finished_at is not None and run.status != RunStatus.COMPLETED.value
        return NOT_ALL_DONE if ended_badly and options["wait"] is not None else DONE


def _read_timeout(text: str | None) -> timedelta | None:
    if text is None or text == FOR_EVER:
        return None
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise refusal(f"--wait: {error}") from error


def _exists(engine: Engine, run_id: str) -> bool:
    try:
        api.get_run(run_id, using=engine.alias)
    except RunNotFound:
        return False
    return True
