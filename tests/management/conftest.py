"""Running commands in the test's own process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from durable import api


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Ask = Callable[..., Answer]


@pytest.fixture
def ask() -> Ask:
    """Return a function that runs a command and tells what came of it."""

    def run(command: str, *args: str) -> Answer:
        out, err, code = StringIO(), StringIO(), 0
        try:
            call_command(command, *args, stdout=out, stderr=err)
        except CommandError as error:
            err.write(f"CommandError: {error}\n")
            code = error.returncode
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Answer(code=code, out=out.getvalue(), err=err.getvalue())

    return run


@pytest.fixture
def work_off(ask: Ask) -> Callable[[], None]:
    """Return a function that does all that is due now."""

    def work() -> None:
        assert ask("durable_work", "--once", "--verbosity", "0") == Answer(code=0, out="", err="")

    return work


@pytest.fixture
def failed_run(transactional_db: None, work_off: Callable[[], None]) -> str:
    """Return the id of a run that has failed."""
    api.start("tests_app.doomed", id="doomed")
    work_off()
    return "doomed"
