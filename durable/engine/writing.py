"""Writing under a lease in the middle of a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from durable.core.errors import LeaseLost
from durable.engine.apply import Applier, checkpoint_of
from durable.engine.dbclock import DatabaseClock
from durable.engine.leases import Holdings
from durable.engine.persist import Persistence
from durable.engine.turn import Turn
from durable.replay.decision import RecordCommand
from durable.store.records import CheckpointWrite, OutgoingMessage
from durable.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Stores what a turn has done so far.

    Attributes:
        store: The store.
        persistence: Repeats store calls.
        holdings: What this instance holds.
        applier: Turns commands into rows.
        dbclock: The database's clock.
    """

    store: Store
    persistence: Persistence
    holdings: Holdings
    applier: Applier
    dbclock: DatabaseClock

    def flush(self, turn: Turn) -> None:
        """Store what earlier operations left to be written, before user code runs or anything waits.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        if turn.commands:
            rows = self.applier.translate(turn.claim, turn.pending_commands(), self.dbclock.now_us())
            self.write(turn, rows.checkpoints, rows.messages)
            turn.forget_commands()
            self.applier.transport.send(rows.tasks)

    def settle(self, turn: Turn, command: RecordCommand) -> None:
        """Write the outcome of an operation, with what rides along.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        now_us = self.dbclock.now_us()
        commands = (*turn.pending_commands(), command)
        self.write(turn, [checkpoint_of(turn.claim, each, now_us) for each in commands])
        turn.forget_commands()

    def write(
        self, turn: Turn, checkpoints: Sequence[CheckpointWrite], messages: Sequence[OutgoingMessage] = ()
    ) -> None:
        """Write checkpoints under the lease; one that was settled before comes into the history as it is stored.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        written = self.while_held(turn, lambda: self.store.record(turn.lease, checkpoints, messages))
        turn.remember(checkpoints)
        if written < len(checkpoints):
            self.read_back(turn, min(write.seq for write in checkpoints))

    def hold(self, turn: Turn, waiting_on: str) -> None:
        """Write what is pending, and that the body waits under the lease.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        rows = self.applier.translate(turn.claim, turn.pending_commands(), self.dbclock.now_us())
        written = self.while_held(
            turn,
            lambda: self.store.hold_turn(turn.lease, rows.checkpoints, rows.messages, waiting_on=waiting_on),
        )
        if written is None:
            raise LeaseLost(turn.lease.run_id)
        turn.remember(rows.checkpoints)
        turn.forget_commands()
        if written < len(rows.checkpoints):
            self.read_back(turn, min(write.seq for write in rows.checkpoints))
        self.applier.transport.send(rows.tasks)

    def read_back(self, turn: Turn, seq: int) -> None:
        """Read the history again from a position, under a lease that is still good.

        Raises:
            LeaseLost: The run belongs to someone else now.
        """
        stored = self.while_held(turn, lambda: self.store.read_history_from(turn.lease.run_pk, seq))
        if not self.while_held(turn, lambda: self.store.holds(turn.lease)):
            raise LeaseLost(turn.lease.run_id)
        turn.history.add(stored)

    def while_held(self, turn: Turn, call: Callable[[], T]) -> T:
        """Repeat a store call as long as the lease lasts.

        Raises:
            LeaseLost: It ran out first.
        """
        return self.persistence.until(call, lambda: self.holdings.require(turn.lease))
