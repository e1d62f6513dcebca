"""What the sweeps share: databases for cases that run at the same time."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.rig.processes import environment
from tests.rig.warm import run_cases

AT_ONCE = 16
CONNECTIONS_PER_CASE = 14
LEASE_S = 1.0
IDLE_LIMIT_S = 2.0
"""How long a session may be idle in a transaction before the server ends it."""
SETTINGS = {"LEASE": f"{LEASE_S:g}s", "POLL": ["0.1s", "1s"]}
"""Short leases, and fewer looks of a worker that waits: each is a point, and they are all alike."""

Sweep = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def sweep(transactional_db: None, tmp_path: Path) -> Iterator[Sweep]:
    """Return a function that runs cases, each on a database of its own: a file, or one of a few on the server."""
    wrapper = connections["default"]
    name = str(wrapper.settings_dict["NAME"])
    at_once = AT_ONCE
    if wrapper.vendor == "postgresql":
        with wrapper.cursor() as cursor:
            cursor.execute("SHOW max_connections")
            at_once = min(AT_ONCE, (int(cursor.fetchone()[0]) - 10) // CONNECTIONS_PER_CASE)
    connections.close_all()
    made = make_databases(name, at_once, tmp_path) if wrapper.vendor == "postgresql" else make_template(name, tmp_path)
    env = environment({"DURABLE_TEST_SETTINGS": json.dumps(SETTINGS)})

    def run(function: str, cases: list[dict[str, Any]], *, alone: bool = False) -> list[dict[str, Any]]:
        given = [{"folder": str(tmp_path), "database": made, **case} for case in cases]
        path = f"tests.acceptance.golden_case.{function}"
        return list(run_cases(path, given, at_once=1 if alone else at_once, env=env, log=tmp_path / "cases.log"))

    yield run
    if wrapper.vendor == "postgresql":
        drop_databases(made, at_once)


def make_template(name: str, folder: Path) -> str:
    """Copy the migrated SQLite file."""
    template = folder / "template.sqlite3"
    with closing(sqlite3.connect(name)) as source, closing(sqlite3.connect(template)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode=WAL")
    return str(template)


def make_databases(name: str, count: int, folder: Path) -> str:
    """Copy the migrated database of the server, once for each slot."""
    drop_databases(name, count)
    with connections["default"]._nodb_cursor() as cursor:
        for slot in range(count):
            cursor.execute(f'CREATE DATABASE "{name}_{slot}" TEMPLATE "{name}"')
            # Clients are killed here, never the server, so no commit need wait for the disk.
            cursor.execute(f'ALTER DATABASE "{name}_{slot}" SET synchronous_commit = off')
            cursor.execute(
                f'ALTER DATABASE "{name}_{slot}" SET idle_in_transaction_session_timeout = {IDLE_LIMIT_S * 1000:.0f}'
            )
    return name


def drop_databases(name: str, count: int) -> None:
    """Remove the copies."""
    with connections["default"]._nodb_cursor() as cursor:
        for slot in range(count):
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}_{slot}" WITH (FORCE)')


@pytest.fixture
def say(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Return a function that prints a line which is seen when the test passes, too."""

    def print_line(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {text}")
            sys.stdout.flush()

    return print_line
