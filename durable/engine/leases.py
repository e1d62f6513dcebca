"""What this instance holds: leases of runs and holds of messages, and when each runs out by its own clock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from durable.core.clock import Clock
from durable.core.errors import LeaseLost
from durable.core.spawn import Spawn
from durable.store.records import Lease

MOST_SEEN = 20_000


@dataclass(slots=True)
class Standstill:
    """A transaction of this instance that keeps all other writers waiting, so that nobody can take its leases.

    Attributes:
        good: The runs and messages that were held when it began, with the epochs of the runs' leases.
        renewed_at: The monotonic time before the transaction renewed them, once it has.
        committed: Whether the renewal came into effect.
    """

    good: dict[int, int] = field(default_factory=dict)
    messages: frozenset[int] = frozenset()
    renewed_at: float | None = None
    committed: bool = False


class Holdings:
    """Deadlines on the monotonic clock, counted from before the database was asked.

    Args:
        clock: The monotonic clock.
        spawn: Makes the lock.
        length_s: Length of a lease in seconds.
    """

    def __init__(self, clock: Clock, spawn: Spawn, length_s: float) -> None:
        self._clock = clock
        self._length_s = length_s
        self._lock = spawn.lock()
        self._leases: dict[int, tuple[Lease, float]] = {}
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._messages: dict[int, float] = {}
        self._cancelled: set[int] = set()
        self._standstills: list[Standstill] = []
        self.length_us = round(length_s * 1_000_000)
        self.late_renewals = 0

    def take(self, leases: Iterable[Lease], asked_at: float) -> frozenset[int]:
        """Note leases that were granted by a request sent at ``asked_at``.

        Returns:
            The runs that are taken with it; one whose grant was noted before, by another way, is left out.
        """
        taken: set[int] = set()
        with self._lock:
            for lease in leases:
                held = self._leases.get(lease.run_pk)
                known = max(self._seen.get(lease.run_pk, 0), 0 if held is None else held[0].epoch)
                if known < lease.epoch:
                    self._seen[lease.run_pk] = lease.epoch
                    self._leases[lease.run_pk] = (lease, asked_at + self._length_s)
                    taken.add(lease.run_pk)
            while len(self._seen) > MOST_SEEN:
                self._seen.popitem(last=False)
        return frozenset(taken)

    def drop(self, lease: Lease) -> None:
        """Forget a lease that was released or lost; a newer one on the same run stays."""
        with self._lock:
            held = self._leases.get(lease.run_pk)
            if held is not None and held[0].epoch == lease.epoch:
                del self._leases[lease.run_pk]

    def leases(self) -> list[Lease]:
        """Return the leases that are held."""
        with self._lock:
            return [lease for lease, _ in self._leases.values()]

    def renewed(self, run_pk: int, epoch: int, asked_at: float) -> None:
        """Prolong a lease; notes when that came after its deadline."""
        with self._lock:
            held = self._leases.get(run_pk)
            if held is None or held[0].epoch != epoch:
                return
            if self._clock.monotonic() > held[1]:
                self.late_renewals += 1
            self._leases[run_pk] = (held[0], max(held[1], asked_at + self._length_s))

    def is_good(self, lease: Lease) -> bool:
        """Tell whether the lease has not run out by this instance's own clock."""
        held = self._leases.get(lease.run_pk)
        if held is None or held[0].epoch != lease.epoch:
            return False
        return self._clock.monotonic() < held[1] or any(
            still.good.get(lease.run_pk) == lease.epoch for still in self._standstills
        )

    @contextmanager
    def standstill(self) -> Iterator[Standstill]:
        """Give what an exclusive transaction needs: ``begin_standstill`` inside it, the renewal as its last act."""
        still = Standstill()
        try:
            yield still
        finally:
            self._end_standstill(still)

    def begin_standstill(self, still: Standstill) -> None:
        """Note what is good now, when the transaction has its lock: it stays good until the transaction ends."""
        now = self._clock.monotonic()
        with self._lock:
            still.good = {pk: lease.epoch for pk, (lease, deadline) in self._leases.items() if now < deadline}
            still.messages = frozenset(each for each, deadline in self._messages.items() if now < deadline)
            self._standstills.append(still)

    def _end_standstill(self, still: Standstill) -> None:
        with self._lock:
            if still not in self._standstills:
                return
            self._standstills.remove(still)
            if not still.committed or still.renewed_at is None:
                return
            deadline = still.renewed_at + self._length_s
            for run_pk, epoch in still.good.items():
                held = self._leases.get(run_pk)
                if held is not None and held[0].epoch == epoch:
                    self._leases[run_pk] = (held[0], max(held[1], deadline))
            for message_id in still.messages & self._messages.keys():
                self._messages[message_id] = max(self._messages[message_id], deadline)

    def require(self, lease: Lease) -> None:
        """Stop here when the lease is not good any more.

        Raises:
            LeaseLost: It has run out or was taken away.
        """
        if not self.is_good(lease):
            raise LeaseLost(lease.run_id)

    def take_messages(self, ids: Iterable[int], asked_at: float) -> frozenset[int]:
        """Note messages that are held; return those that were not noted before."""
        with self._lock:
            fresh = frozenset(message_id for message_id in ids if message_id not in self._messages)
            self._messages.update((message_id, asked_at + self._length_s) for message_id in fresh)
        return fresh

    def drop_message(self, message_id: int) -> None:
        """Forget a message that was settled or lost."""
        with self._lock:
            self._messages.pop(message_id, None)
            self._cancelled.discard(message_id)

    def messages(self) -> list[int]:
        """Return the ids of held messages."""
        with self._lock:
            return list(self._messages)

    def renew_message(self, message_id: int, asked_at: float) -> None:
        """Prolong a hold."""
        with self._lock:
            if message_id in self._messages:
                self._messages[message_id] = max(self._messages[message_id], asked_at + self._length_s)

    def has_message(self, message_id: int) -> bool:
        """Tell whether the hold has not run out by this instance's own clock."""
        deadline = self._messages.get(message_id)
        if deadline is None:
            return False
        return self._clock.monotonic() < deadline or any(message_id in still.messages for still in self._standstills)

    def cancel_message(self, message_id: int) -> None:
        """Note that the run of a message has ended, so that its step can stop."""
        with self._lock:
            if message_id in self._messages:
                self._cancelled.add(message_id)

    def is_cancelled(self, message_id: int) -> bool:
        """Tell whether the run of a message has ended, or the hold is lost."""
        return message_id in self._cancelled or not self.has_message(message_id)
