"""What happens, and what does not happen, when the package is imported or a command is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, sources

WATCHED = """
import sys, threading

def watch(event, args):
    if event == "sqlite3.connect" and not str(args[0]).startswith(":memory:"):
        raise SystemExit(f"a connection to {args[0]} was opened")

sys.addaudithook(watch)
threads = set(threading.enumerate())
from django.core.management import execute_from_command_line
execute_from_command_line(["django", *sys.argv[1:]])
started = set(threading.enumerate()) - threads
sys.exit(f"threads were started: {started}" if started else 0)
"""


def run_python(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a clean environment, warnings being errors."""
    kept = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, "-W", "error", *args],
        cwd=ROOT,
        env={**kept, **env},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_package_is_imported_without_django_being_configured():
    code = "import durable, sys; from django.conf import settings; sys.exit(settings.configured)"

    result = run_python("-c", code)

    assert result.returncode == 0, result.stderr


def test_the_package_is_imported_without_its_extras():
    extras = ("psycopg", "celery", "redis", "django_redis", "adminextensions", "pytest")
    code = (
        f"import sys\nfor name in {extras!r}: sys.modules[name] = None\nimport durable, django\ndjango.setup()\n"
        "from django.core.management import call_command; call_command('check', verbosity=0)"
    )

    result = run_python("-c", code, DJANGO_SETTINGS_MODULE="testproject.settings", DATABASE_URL="")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("command", [["check"], ["help"], ["collectstatic", "--no-input", "--dry-run"]])
def test_a_command_starts_no_thread_and_opens_no_connection(command: list[str], tmp_path: Path):
    result = run_python(
        "-c",
        WATCHED,
        *command,
        DJANGO_SETTINGS_MODULE="tests.architecture.quiet_settings",
        DATABASE_URL=f"sqlite:///{tmp_path / 'never.sqlite3'}",
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(tmp_path.iterdir())


def test_migrate_starts_no_thread(tmp_path: Path):
    code = WATCHED.replace('raise SystemExit(f"a connection to {args[0]} was opened")', "pass")

    result = run_python(
        "-c",
        code,
        "migrate",
        "--verbosity=0",
        DJANGO_SETTINGS_MODULE="testproject.settings",
        DATABASE_URL=f"sqlite:///{tmp_path / 'new.sqlite3'}",
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == ""


def test_no_room_has_the_name_of_a_public_function():
    rooms = {source.room for source in sources()}

    assert not rooms & {"workflow", "step", "current_step", "ref", "signal", "wait", "start", "cancel", "retry"}


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "manager", "misc"])
def test_every_module_has_a_name_that_says_something(name: str):
    assert not [source.name for source in sources() if name in source.name.removesuffix(".py").split("/")]
