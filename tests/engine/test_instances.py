"""The engines of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from durable.engine.instance import close_engines, get_engine
from durable.engine.ports import install_watch


@pytest.fixture
def made_stores() -> Iterator[list[Any]]:
    """Return the stores that are made; whoever makes the first waits a while for another to make a second."""
    made: list[Any] = []
    another = threading.Event()

    def watch(name: str, port: Any) -> Any:
        if name == "store":
            made.append(port)
            if len(made) == 1:
                another.wait(0.3)
            else:
                another.set()
        return port

    close_engines()
    install_watch(watch)
    yield made
    install_watch(None)
    close_engines()


def test_threads_that_ask_at_the_same_time_get_one_engine(made_stores):
    with ThreadPoolExecutor(4) as pool:
        engines = {id(engine) for engine in pool.map(lambda _: get_engine(), range(4))}

    assert len(engines) == len(made_stores) == 1
