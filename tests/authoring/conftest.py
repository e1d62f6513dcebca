from collections.abc import Iterator

import pytest

from durable.authoring.registry import Registry, override_registry


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    """Let every test declare what it likes."""
    with override_registry() as emptied:
        yield emptied
