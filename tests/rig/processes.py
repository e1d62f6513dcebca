"""Real processes against the test database."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from django.db import connections

from testproject.database import url_of
from tests.rig.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = {"default": "DATABASE_URL", "other": "DATABASE_URL_OTHER"}


class ManagedProcess:
    """A management command in a process of its own; its output goes to a file."""

    def __init__(self, *args: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.args = args
        self.log = log
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.rig.launch", *args],
                cwd=ROOT,
                env=environment(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __repr__(self) -> str:
        state = "running" if self.is_alive() else f"ended with {self.popen.returncode}"
        return f"<{' '.join(self.args)}, pid {self.pid}, {state}>"

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; `-n` after signal n; `None` while the process lives."""
        return self.popen.poll()

    @property
    def output(self) -> str:
        """What the process printed so far, standard output and error together."""
        return self.log.read_text(errors="replace")

    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def sigkill(self) -> None:
        """End the process as a power cut would, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self.popen.wait(10)

    def sigstop(self) -> None:
        """Freeze the process; its locks and connections stay."""
        self._signal(signal.SIGSTOP)

    def sigcont(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the process to drain and end (SIGTERM); returns at once."""
        self._signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """Ask as Ctrl-C does (SIGINT); returns at once."""
        self._signal(signal.SIGINT)

    def wait(self, timeout: float = 30.0) -> int:
        """Return the exit code once the process has ended.

        Raises:
            StillFalseError: it still ran after so many seconds.
        """
        wait_until(lambda: not self.is_alive(), timeout=timeout, what=f"{self!r} to end")
        return self.popen.returncode

    def wait_for_output(self, text: str, timeout: float = 15.0) -> None:
        """Wait until the process has printed the text.

        Raises:
            StillFalseError: it was not printed in time.
            AssertionError: the process ended without printing it.
        """
        wait_until(
            lambda: text in self.output or not self.is_alive(), timeout=timeout, what=f"{text!r} printed by {self!r}"
        )
        assert text in self.output, f"{self!r} never printed {text!r}"

    def print_stacks(self) -> None:
        """Have the stacks of all threads printed to the output, if the process lives."""
        if not self.is_alive():
            return
        before = len(self.output)
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGUSR1)
        wait_until(lambda: len(self.output) > before or not self.is_alive(), timeout=2, what=f"the stacks of {self!r}")

    def clean_up(self) -> None:
        """End the process and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait(10)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive():
            self.popen.send_signal(number)


def disconnect_others(alias: str) -> None:
    """End what killed processes left behind on a PostgreSQL server: sessions that still hold locks."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = %s",
            [APPLICATION],
        )


APPLICATION = f"durable-rig-{os.getpid()}"


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with the test databases in the place of the real ones."""
    databases = {variable: url_of(dict(connections[alias].settings_dict)) for alias, variable in VARIABLES.items()}
    return {
        **os.environ,
        **databases,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PGAPPNAME": APPLICATION,
        "PYTHONUNBUFFERED": "1",
        **extra,
    }
