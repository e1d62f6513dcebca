"""The thread that keeps what this instance holds: it renews leases and holds, beats, and shows steps that take long.

It runs no user code, so that a step that computes for a minute does not lose its run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from durable.core.spawn import Thread
from durable.core.states import TERMINAL, CheckpointStatus
from durable.engine.beats import Beats
from durable.engine.dbclock import DatabaseClock
from durable.engine.leases import Holdings
from durable.engine.local import LocalOperation
from durable.engine.ports import Ports
from durable.engine.turn import Turn
from durable.store.errors import StoreTrouble
from durable.store.records import CheckpointWrite, Lease

LONGEST_TICK_S = 0.25
SLOW_STEP_S = 0.5
logger = logging.getLogger("durable.engine")


@dataclass(slots=True, kw_only=True)
class RunningStep:
    """A local step that is being executed, and since when."""

    lease: Lease
    operation: LocalOperation
    attempt: int
    started_at_us: int
    since: float
    shown: bool = False

    def checkpoint(self) -> CheckpointWrite:
        """Return what shows the step."""
        return CheckpointWrite(
            run_pk=self.lease.run_pk,
            seq=self.operation.at.seq,
            name=self.operation.at.name,
            kind=self.operation.at.kind,
            status=CheckpointStatus.RUNNING,
            input=self.operation.input,
            attempts=self.attempt,
            started_at_us=self.started_at_us,
        )


class SlowSteps:
    """Local steps that are being executed; those that take longer than half a second are shown.

    Args:
        ports: Store and clock.
        dbclock: The database's clock.
    """

    def __init__(self, ports: Ports, dbclock: DatabaseClock) -> None:
        self._ports = ports
        self._dbclock = dbclock
        self._running: dict[int, RunningStep] = {}

    @contextmanager
    def watch(self, turn: Turn, operation: LocalOperation, attempt: int) -> Iterator[None]:
        """Watch a step as long as the block runs."""
        step = RunningStep(
            lease=turn.lease,
            operation=operation,
            attempt=attempt,
            started_at_us=self._dbclock.now_us(),
            since=self._ports.clock.monotonic(),
        )
        key = id(step)
        self._running[key] = step
        try:
            yield
        finally:
            self._running.pop(key, None)

    def show(self) -> None:
        """Write what has been running for half a second."""
        before = self._ports.clock.monotonic() - SLOW_STEP_S
        for step in list(self._running.values()):
            if step.since <= before and not step.shown:
                step.shown = True
                self._ports.store.note_running(step.lease, step.checkpoint())


class Keeper:
    """Ticks while the instance lives.

    Args:
        owner: This instance.
        ports: Store, clock and threads.
        holdings: What is held.
        slow_steps: Local steps that are being executed.
        beats: Dispatched steps that are being executed.
        stamped: Told which runs a wake has met.
        lease_us: Length of a lease.
    """

    def __init__(
        self,
        owner: str,
        ports: Ports,
        holdings: Holdings,
        slow_steps: SlowSteps,
        beats: Beats,
        *,
        stamped: Callable[[int], None],
        lease_us: int,
    ) -> None:
        self._owner = owner
        self._ports = ports
        self._holdings = holdings
        self._slow_steps = slow_steps
        self._beats = beats
        self._stamped = stamped
        self._lease_us = lease_us
        self._third_s = lease_us / 3_000_000
        self._tick_s = min(LONGEST_TICK_S, self._third_s / 4)
        self._renew_at = ports.clock.monotonic() + self._third_s
        self._stop = ports.spawn.event()
        self._handle: Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._handle = self._ports.spawn.thread("durable-keeper", self._serve)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._handle is not None:
            self._handle.join(5.0)

    def _serve(self) -> None:
        while not self._stop.wait(self._tick_s):
            try:
                self.tick()
            except StoreTrouble:
                logger.warning("Leases could not be renewed; it is tried again")
                self._ports.clock.sleep(min(self._third_s / 4, 1.0))
            except Exception:
                logger.exception("The lease thread met an error and goes on")
        self._ports.store.session.leave_thread()

    def tick(self) -> None:
        """Do what is due."""
        if self._ports.clock.monotonic() >= self._renew_at:
            skipped = self._renew_leases() + self._renew_messages()
            self._renew_at = self._ports.clock.monotonic() + (self._tick_s if skipped else self._third_s)
        self._slow_steps.show()
        self._beats.tick()

    def _renew_leases(self) -> int:
        leases = {lease.run_pk: lease for lease in self._holdings.leases()}
        if not leases:
            return 0
        asked_at = self._ports.clock.monotonic()
        renewed = self._ports.store.renew_leases(self._owner, sorted(leases), lease_us=self._lease_us)
        for each in renewed:
            self._holdings.renewed(each.run_pk, each.epoch, asked_at)
            if each.stamped:
                self._stamped(each.run_pk)
        left = leases.keys() - {each.run_pk for each in renewed}
        return self._drop_lost(leases, sorted(left)) if left else 0

    def _drop_lost(self, leases: dict[int, Lease], left: list[int]) -> int:
        standing = self._ports.store.standing_leases(self._owner, left)
        for run_pk in left:
            if standing.get(run_pk) != leases[run_pk].epoch:
                self._holdings.drop(leases[run_pk])
        return len(standing)

    def _renew_messages(self) -> int:
        ids = sorted(self._holdings.messages())
        if not ids:
            return 0
        asked_at = self._ports.clock.monotonic()
        renewed = self._ports.store.hold_messages(self._owner, ids, lease_us=self._lease_us)
        for message_id, status in renewed.items():
            self._holdings.renew_message(message_id, asked_at)
            if status is None or status in TERMINAL:
                self._holdings.cancel_message(message_id)
        left = [message_id for message_id in ids if message_id not in renewed]
        if not left:
            return 0
        surviving = self._ports.store.surviving_messages(self._owner, left)
        for message_id in left:
            if message_id not in surviving:
                self._holdings.cancel_message(message_id)
        return len(surviving)
