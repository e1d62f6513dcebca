"""The demo's worker processes: started, frozen, killed, stopped. Their output goes to files beside the database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
STOP_LIMIT_S = 20


def run_command(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a management command in a process of its own and return how it ended."""
    return subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, str(MANAGE), *args],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=_environment(),
    )


class WorkerProcess:
    """A real ``durable_work``.

    Args:
        number: Which worker of the demo it is.
        folder: Where its output goes.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.log = folder / f"worker-{number}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, str(MANAGE), "durable_work"],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._process.poll() is None

    def freeze(self) -> None:
        """Stop it where it stands, so that it can be looked at; nothing where the system cannot."""
        if sys.platform != "win32":
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        if sys.platform != "win32":
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power cut would: no handler, no ``finally``, no goodbye."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to finish what it does and to end; return its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def tail(self, lines: int = 15) -> list[str]:
        """Return the last lines that it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}
