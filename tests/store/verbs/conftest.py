"""The same suite on every seam: Django's connection of the pass, and plain ``sqlite3`` in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper

from durable.store.django_session import open_session
from durable.store.sqlite_session import SqliteMemorySession
from durable.store.store import Store
from tests.rig.kept import *  # noqa: F403  # fixtures and hooks
from tests.rig.kept import TABLES, empty_tables
from tests.store.verbs.bench import Bench


@cache
def memory_schema() -> str:
    """Return the tables as Django makes them on SQLite."""
    facts = {**connections["default"].settings_dict, "NAME": ":memory:", "OPTIONS": {}}
    wrapper = DatabaseWrapper(facts, alias="default")
    with wrapper.schema_editor(collect_sql=True, atomic=False) as editor:
        for model in reversed(TABLES):
            editor.create_model(model)
    BaseDatabaseWrapper.close(wrapper)  # SQLite's own leaves databases in memory open
    return "\n".join(editor.collected_sql)


@pytest.fixture(params=["django", pytest.param("memory", marks=pytest.mark.sqlite)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Return an empty store and what is needed to look into it."""
    if request.param == "memory":
        clock = [1_700_000_000_000_000]
        session = SqliteMemorySession(lambda: clock[0], memory_schema())
        yield Bench(Store(session), clock)
        session.dispose()
        return
    empty_tables()
    yield Bench(Store(open_session("default")), None)


@pytest.fixture
def store(bench: Bench) -> Any:
    """Return the store."""
    return bench.store
