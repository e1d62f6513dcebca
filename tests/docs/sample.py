"""Sample projects: the files of a page, a shell, a Python session and a worker, each in processes of their own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command, commands
from tests.rig.patience import wait_until

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "for an example"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["durable", {apps}]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}}}
DATABASES["default"]["TEST"] = {{"NAME": BASE_DIR / "test.sqlite3"}}
"""
MANAGE = """
import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
execute_from_command_line(sys.argv)
"""
NOT_RUN = ("pip install", "python -m venv", ". .venv", "source ", "cd ", "tox")
"""Commands that need a network, or change the shell that the tests are in."""


NOT_ENDING = ("python manage.py shell", "python manage.py runserver")
LOOKS = "python manage.py durable_runs"
PATIENCE_S = 30


class Sample:
    """A project in a folder of its own.

    Args:
        folder: Where it is made.
        module: The package of its settings.
    """

    def __init__(self, folder: Path, module: str = "mysite") -> None:
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": f"{module}.settings",
            "COLUMNS": "120",
        }
        self._processes: list[subprocess.Popen[str]] = []
        self._session: subprocess.Popen[str] | None = None
        self._shell: Shell | None = None

    def make(self, files: list[Block]) -> None:
        """Write the project and the files of a page, then make the tables."""
        apps = sorted({file.file.split("/")[0] for file in files} - {"mysite"})
        self.write("mysite/__init__.py", "")
        self.write("mysite/settings.py", SETTINGS.format(apps=", ".join(f'"{app}"' for app in apps)))
        self.write("manage.py", MANAGE)
        for app in apps:
            self.write(f"{app}/__init__.py", "")
        for block in files:
            self.write(block.file, block.body)
        self.manage("migrate", "--run-syncdb", "--verbosity", "0", "--skip-checks")

    def write(self, name: str, text: str) -> None:
        """Add text to a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)

    def replace(self, name: str, text: str) -> None:
        """Write a file, whatever was in it."""
        (self.folder / name).unlink(missing_ok=True)
        self.write(name, text)

    def manage(self, *args: str) -> None:
        """Run a management command to its end."""
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start_worker(self) -> None:
        """Start a worker that lives as long as the sample."""
        log = self.folder / "worker.log"
        with log.open("w") as output:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-m", "tests.rig.launch", "durable_work"],
                    cwd=self.folder,
                    env=self.env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    text=True,
                )
            )
        wait_until(lambda: "Ready." in log.read_text(), what="the worker to be ready")

    def run_python(self, block: Block) -> str:
        """Run an example in the one Python session; return what differs from the page."""
        if self._session is None:
            self._session = subprocess.Popen(
                [sys.executable, "-m", "tests.docs.session"],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                text=True,
            )
            self._processes.append(self._session)
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        request = {"body": block.body, "at": str(block), "page": str(block.page), "line": block.line}
        self._session.stdin.write(json.dumps(request) + "\n")
        self._session.stdin.flush()
        answer = self._session.stdout.readline()
        assert answer, f"the Python session ended at {block}"
        facts = json.loads(answer)
        return str(facts["report"]) if facts["failed"] else ""

    def run_commands(self, block: Block) -> None:
        """Run the commands of a block in the one shell; what the page says they print must be printed."""
        if self._shell is None:
            self._shell = Shell(self.folder, self.env)
            self._processes.append(self._shell.process)
        for command in commands(block):
            if not command.text.startswith(NOT_RUN) and command.text not in NOT_ENDING:
                self._run_command(self._shell, command)

    @staticmethod
    def _run_command(shell: "Shell", command: Command) -> None:
        try:
            shell.run(command)
        except AssertionError as error:
            raise AssertionError(f"{error}\nEverything that was printed:\n{shell.output}") from None

    def close(self) -> None:
        """End every process."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class Shell:
    """A real ``bash``, so that ``&``, ``$!`` and ``kill`` mean what they say."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self._lines: list[str] = []
        self._commands = 0
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                self._lines.append(line.rstrip())
        except ValueError:  # closed with the sample
            return

    def run(self, command: Command) -> None:
        """Run a command and wait for the lines that it shall print.

        A command that only looks is run again until it sees them, as a reader would do.
        """
        looks = command.text.startswith(LOOKS)
        if looks:
            wait_until(lambda: self._prints(command), timeout=PATIENCE_S, interval=0.3, what=self._what(command))
        else:
            since = len(self._lines)
            self._send(command)
            wait_until(lambda: self._printed(command, since), timeout=PATIENCE_S, what=self._what(command))

    def _prints(self, command: Command) -> bool:
        since = len(self._lines)
        self._send(command)
        return self._printed(command, since)

    def _send(self, command: Command) -> None:
        assert self.process.stdin is not None
        self._commands += 1
        mark = f"__done_{self._commands}_"
        text = command.text if command.text.endswith("&") else f"{command.text} < /dev/null"
        self.process.stdin.write(f"{text}\necho {mark}$?\n")
        self.process.stdin.flush()
        ended = wait_until(
            lambda: next((line for line in self._lines if line.startswith(mark)), None),
            timeout=PATIENCE_S,
            what=f"{command.at} to end",
        )
        assert ended == f"{mark}0", f"{command.at} ended badly:\n{self._shown()}"

    def _printed(self, command: Command, since: int) -> bool:
        """Tell whether each line came; lines of several processes come in any order."""
        lines = self._lines[since:]
        for expected in command.printed:
            pattern = re.compile(_pattern(expected))
            found = next((line for line in lines if pattern.fullmatch(line)), None)
            if found is None:
                return False
            lines.remove(found)
        return True

    def _what(self, command: Command) -> str:
        return f"{command.at} to print what the page says"

    def _shown(self) -> str:
        return "\n".join(line for line in self._lines if not line.startswith("__done_"))

    @property
    def output(self) -> str:
        """Everything that was printed."""
        return self._shown()


def _pattern(expected: str) -> str:
    """Return the expression of a printed line: ``...`` stands for anything, a space for any number of them."""
    parts = (r"\s+".join(re.escape(word) for word in part.split()) for part in expected.split("..."))
    return r"\s*" + r".*".join(parts) + r"\s*"
