"""A database that keeps its rows for a module, and a worker that serves the module's tests.

Tests choose ids of their own, so they need no empty tables; that saves a flush for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.workers import WorkerThread, make_engine
from tests.rig.kept import *  # noqa: F403  # fixtures and hooks


@pytest.fixture(scope="module", params=[500, 0], ids=["parked", "evicted"])
def park_limit(request: pytest.FixtureRequest) -> int:
    """Run each test twice: bodies stay parked, and every body is thrown away at each suspension."""
    limit: int = request.param
    return limit


@pytest.fixture(scope="module")
def worker(database: None, park_limit: int) -> Iterator[WorkerThread]:
    """Return a worker that runs during the module."""
    with WorkerThread(make_engine(), park_limit=park_limit) as running:
        yield running


@pytest.fixture
def token() -> str:
    """Return a name that no other test uses."""
    return uuid4().hex


@pytest.fixture
def start_worker() -> Iterator[Callable[..., WorkerThread]]:
    """Return a function that starts a worker with settings of its own; it ends with the test."""
    running: list[WorkerThread] = []

    def start(*, alias: str = "default", options: dict[str, Any] | None = None, **settings: Any) -> WorkerThread:
        running.append(WorkerThread(make_engine(alias, **settings), **(options or {})))
        return running[-1].__enter__()

    yield start
    for each in reversed(running):
        each.__exit__()
