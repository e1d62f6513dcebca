"""The database's clock, as this instance knows it without asking each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from durable.core.clock import Clock
from durable.store.store import Store

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DatabaseClock:
    """Tells the database's instant from the last one it told and the monotonic time since.

    The count starts *before* the database was asked, so an estimate is never behind the truth, and a deadline
    reckoned from it is never early. Jumps of the wall clock change nothing.
    """

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._anchor: tuple[int, float] | None = None

    def learn(self, instant_us: int, asked_at: float) -> None:
        """Take in what the database told.

        Args:
            instant_us: The database's instant.
            asked_at: The monotonic time before the question was sent.
        """
        self._anchor = (instant_us, asked_at)

    def now_us(self) -> int:
        """Return the database's instant; asks once when nothing is known."""
        anchor = self._anchor
        if anchor is None:
            asked_at = self._clock.monotonic()
            anchor = (self._store.read_now(), asked_at)
            self._anchor = anchor
        instant_us, asked_at = anchor
        return instant_us + int((self._clock.monotonic() - asked_at) * 1_000_000)

    def now(self) -> datetime:
        """Return the database's instant as an aware datetime."""
        return EPOCH + timedelta(microseconds=self.now_us())
