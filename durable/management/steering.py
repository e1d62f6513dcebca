"""Commands that do one thing to each of several runs, and say what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from durable.core.errors import RunNotFound, WrongState
from durable.engine.engine import Engine
from durable.management.base import DONE, NOT_ALL_DONE, DurableCommand, add_json_option
from durable.management.wording import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one run."""

    run_id: str
    done: bool
    code: str | None = None
    message: str | None = None


class SteeringCommand(DurableCommand):
    """A command that takes run ids. One that cannot be served stops none of the others."""

    past: str
    """What was done, as a participle."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the ids."""
        super().add_arguments(parser)
        parser.add_argument("run_ids", nargs="+", metavar="RUN_ID", help="the runs")
        add_json_option(parser)

    def steer(self, run_id: str, alias: str) -> None:
        """Do it to one run."""
        raise NotImplementedError

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Do it to each run once, and tell people of each as it happens."""
        outcomes = []
        for run_id in dict.fromkeys(options["run_ids"]):
            outcomes.append(_attempt(self.steer, run_id, engine.alias))
            if not options["json"]:
                self._tell(outcomes[-1], options)
        failed = sum(not outcome.done for outcome in outcomes)
        if options["json"]:
            self.print_json([_facts(outcome) for outcome in outcomes])
        elif len(outcomes) > 1:
            skipped = f", {failed} skipped" if failed else ""
            self.say(f"{count(len(outcomes) - failed, 'run')} {self.past}{skipped}.", options)
        return NOT_ALL_DONE if failed else DONE

    def _tell(self, outcome: Outcome, options: dict[str, Any]) -> None:
        if outcome.done:
            self.say(f"{self.style.SUCCESS(self.past.capitalize())} {outcome.run_id}", options)
        else:
            self.stderr.write(self.style.ERROR(outcome.message or ""))


def _attempt(steer: Callable[[str, str], None], run_id: str, alias: str) -> Outcome:
    try:
        steer(run_id, alias)
    except (RunNotFound, WrongState) as error:
        return Outcome(run_id=run_id, done=False, code=error.code, message=str(error))
    return Outcome(run_id=run_id, done=True)


def _facts(outcome: Outcome) -> dict[str, Any]:
    error = None if outcome.done else {"code": outcome.code, "message": outcome.message}
    return {"run_id": outcome.run_id, "done": outcome.done, "error": error}
