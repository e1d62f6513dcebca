"""Fixtures for all tests. The database is chosen by `tests.rig.plugin`."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from tests.rig.patience import StillFalseError
from tests.rig.patience import wait_until as _wait_until
from tests.rig.processes import ManagedProcess, disconnect_others

PROCESSES = pytest.StashKey[list[ManagedProcess]]()


class SpawnWorker(Protocol):
    """Starts `durable_work` with arguments, or another management command."""

    def __call__(
        self, *args: str, command: str = "durable_work", env: Mapping[str, str] | None = None
    ) -> ManagedProcess: ...


@pytest.fixture
def spawn_worker(request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path) -> Iterator[SpawnWorker]:
    """Return a function that starts a real worker process on the test database; all are ended with the test."""
    processes: list[ManagedProcess] = []
    request.node.stash[PROCESSES] = processes

    def spawn(*args: str, command: str = "durable_work", env: Mapping[str, str] | None = None) -> ManagedProcess:
        log = tmp_path / f"process-{len(processes) + 1}.log"
        processes.append(ManagedProcess(command, *args, log=log, env=env))
        return processes[-1]

    yield spawn
    for process in processes:
        process.clean_up()
    if processes:
        marker = request.node.get_closest_marker("django_db")
        for alias in (marker and marker.kwargs.get("databases")) or ["default"]:
            disconnect_others(alias)


@pytest.fixture
def wait_until() -> Callable[..., object]:
    """Return `tests.rig.patience.wait_until`: waits for a condition with a hard limit."""
    return _wait_until


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what a failed test's processes printed, and where the living ones stand."""
    report = yield
    if report.when == "call" and report.failed:
        for process in item.stash.get(PROCESSES, []):
            with contextlib.suppress(StillFalseError):
                process.print_stacks()
            report.sections.append((f"{process!r}", process.output))
    return report
