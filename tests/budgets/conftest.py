"""What the counting tests share: the tap, and workers whose statements pass through it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.budgets.tap import Tally, Tap
from tests.rig.patience import wait_until
from tests.rig.processes import ManagedProcess

SETTINGS = "tests.budgets.settings"
LOOK = "SELECT (extract(epoch from statement_timestamp()) * 1000000)::bigint, EXISTS"
CLAIM = "UPDATE durable_workflow_runs SET status = 'running'"
TAKE = "UPDATE durable_transport_messages SET held_by"
END = "lease_owner = NULL, lease_expires_at_us = NULL"


@dataclass(frozen=True, slots=True)
class CountedWorker:
    """A worker process behind a tap of its own."""

    process: ManagedProcess
    tap: Tap

    def tally(self, mark: int = 0) -> Tally:
        """Return what the worker sent since a mark."""
        return self.tap.since(mark)

    def of_bodies(self, mark: int = 0) -> Tally:
        """Return what was sent on the connections of the threads that drive bodies: those that end turns."""
        return self.tally(mark).on(self.tally().containing(END).connections)

    def of_loop(self, mark: int = 0) -> Tally:
        """Return what was sent on the connection of the loop: the one that looks."""
        return self.tally(mark).on(self.tally().containing(LOOK).connections)


@pytest.fixture
def tap(transactional_db: None) -> Iterator[Tap]:
    """Return a tap before the server of the test database."""
    tap = Tap()
    yield tap
    tap.close()


@pytest.fixture
def start_counted_worker(spawn_worker, request) -> Iterator[Callable[..., CountedWorker]]:
    """Return a function that starts a worker whose statements are counted, and waits until it looks for work."""
    taps: list[Tap] = []

    def start(*args: str) -> CountedWorker:
        tap = Tap()
        taps.append(tap)
        process = spawn_worker(*args, env={"DATABASE_URL": tap.url, "DJANGO_SETTINGS_MODULE": SETTINGS})
        wait_until(lambda: tap.since().containing(LOOK).sent, timeout=30, what="the worker to look for work")
        return CountedWorker(process, tap)

    yield start
    for tap in taps:
        tap.close()
