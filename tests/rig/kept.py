"""A database whose rows stay for a whole module: for tests that choose ids of their own and need no empty tables.

A `conftest.py` takes all names of this module. Emptying the tables after each test would take longer than most tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from durable.engine.instance import close_engines
from durable.models import BufferedSignal, SignalWaiter, StepCheckpoint, TransportMessage, WorkflowRun

ALIASES = ("default", "other")
TABLES = (TransportMessage, BufferedSignal, SignalWaiter, StepCheckpoint, WorkflowRun)
__all__ = ["_django_db_helper", "database", "pytest_itemcollected"]


def empty_tables(alias: str = "default") -> None:
    """Delete every row of the engine."""
    for model in TABLES:
        model._base_manager.using(alias).all()._raw_delete(alias)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of the folder: pytest-django creates the databases that marked tests name."""
    item.add_marker(pytest.mark.django_db(transaction=True, databases=list(ALIASES)))


@pytest.fixture
def _django_db_helper() -> None:
    """Do not empty the tables after each test, as pytest-django's own fixture of this name does."""


@pytest.fixture(scope="module", autouse=True)
def database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Let the whole module use the databases; its rows go with it."""
    with django_db_blocker.unblock():
        close_engines()
        yield
        close_engines()
        for alias in ALIASES:
            empty_tables(alias)
