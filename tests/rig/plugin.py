"""Chooses the database of a pass: `--db sqlite` (a file in WAL mode) or `--db postgres`.

The choice is made before Django's settings are read. The SQLite pass runs every test; the PostgreSQL pass runs those
that touch a database, since the others cannot tell the difference.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from django.test import TransactionTestCase

from testproject.database import settings_of, url_of
from tests.rig.postgres import NAMED_BY, NoServerError, Server, find_server

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "spawn_worker", "live_server"}
PASS = pytest.StashKey[str]()
MISSING = pytest.StashKey[str]()
SERVER = pytest.StashKey[Server]()
FOLDER = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--db", choices=["sqlite", "postgres"], default="sqlite", help="the database of this pass")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Name the databases in the environment, from which `tests.settings` reads them."""
    chosen = early_config.known_args_namespace.db
    early_config.stash[PASS] = chosen
    early_config.stash[FOLDER] = folder = Path(tempfile.mkdtemp(prefix="durable-tests-"))
    if chosen == "postgres":
        try:
            early_config.stash[SERVER] = server = find_server()
        except NoServerError as error:
            early_config.stash[MISSING] = str(error)
        else:
            os.environ[NAMED_BY] = server.url  # for xdist's workers
            for variable, alias in (("DATABASE_URL", "default"), ("DATABASE_URL_OTHER", "other")):
                os.environ[variable] = server.url
                os.environ[f"{variable}_TEST_NAME"] = f"test_durable_{os.getpid()}_{alias}"
            return
    for variable, alias in (("DATABASE_URL", "default"), ("DATABASE_URL_OTHER", "other")):
        os.environ[variable] = url_of({**settings_of("sqlite:///"), "NAME": str(folder / f"{alias}.sqlite3")})
        os.environ[f"{variable}_TEST_NAME"] = str(folder / f"test_{alias}.sqlite3")


def pytest_configure(config: pytest.Config) -> None:
    if MISSING in config.stash and os.environ.get("CI"):
        message = f"The PostgreSQL pass cannot run: {_missing(config)}"
        raise pytest.UsageError(message)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    if MISSING in config.stash:
        return f"database: none ({_missing(config)})"
    return f"database: {config.stash[PASS]}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to the other pass; skip the whole PostgreSQL pass where there is no server."""
    kept = [item for item in items if _belongs(item, config.stash[PASS])]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    if MISSING in config.stash:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"needs PostgreSQL: {_missing(config)}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if MISSING in config.stash:
        terminalreporter.section("PostgreSQL was skipped", yellow=True)
        terminalreporter.line(f"No test ran on PostgreSQL: {_missing(config)}")


def _missing(config: pytest.Config) -> str:
    return f"{config.stash[MISSING]}. Name a server in {NAMED_BY} (postgresql://user:password@host:port/name)."


def _belongs(item: pytest.Item, chosen: str) -> bool:
    if chosen == "sqlite":
        return item.get_closest_marker("postgres") is None
    return item.get_closest_marker("sqlite") is None and _touches_database(item)


def _touches_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("django_db") or item.get_closest_marker("postgres"):
        return True
    if DATABASE_FIXTURES & set(getattr(item, "fixturenames", ())):
        return True
    cls = getattr(item, "cls", None)
    return cls is not None and issubclass(cls, TransactionTestCase)
