"""Store calls that are made again until they succeed or no longer matter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from durable.core.clock import Clock
from durable.core.errors import StoreUnavailable
from durable.core.ids import Ids
from durable.store.errors import StoreTrouble
from durable.store.seam import Session

T = TypeVar("T")
FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 1.0
logger = logging.getLogger("durable.store")


class Persistence:
    """Repeats a store verb through lost connections, deadlocks and busy databases.

    Every verb can be repeated, so nobody needs to know whether the lost answer meant yes or no.
    """

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    def until(self, call: Callable[[], T], still_wanted: Callable[[], None]) -> T:
        """Repeat a call until it succeeds.

        Args:
            call: The store verb with its arguments.
            still_wanted: Raises when there is no point in going on; asked before each repetition.
        """
        wait_s = FIRST_WAIT_S
        while True:
            try:
                return call()
            except StoreTrouble as trouble:
                logger.debug("A store call is repeated", extra={"reason": type(trouble).__name__})
            self._clock.sleep(wait_s * (0.5 + self._ids.random() / 2))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
            still_wanted()

    def ask(self, session: Session, call: Callable[[], T]) -> T:
        """Make a call for a caller who waits: once inside a transaction of the caller's, else a few times.

        Raises:
            StoreUnavailable: It failed each time.
        """
        if not session.in_transaction():
            return self.attempts(call)
        try:
            return call()
        except StoreTrouble as trouble:
            raise StoreUnavailable("the transaction is broken and must be rolled back") from trouble

    def attempts(self, call: Callable[[], T], times: int = 3) -> T:
        """Repeat a call a few times, for a caller who waits.

        Raises:
            StoreUnavailable: It failed each time.
        """
        left = times

        def count() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise StoreUnavailable("the database did not answer; nothing is known to be lost, try again")

        return self.until(call, count)
