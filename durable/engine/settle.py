"""The one place where results of dispatched steps are settled, whoever executed them and wherever they land."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from durable.core.failure import Failure
from durable.core.ids import Ids
from durable.core.retry import RetryPolicy
from durable.core.states import CheckpointStatus
from durable.engine.dbclock import DatabaseClock
from durable.engine.settling import retry_at_us
from durable.store.records import Settled, Settlement
from durable.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """How one attempt of a dispatched step ended.

    Attributes:
        run_id: The run.
        seq: Position of the step.
        attempt: Which attempt it was.
        output: The result as JSON text.
        failure: Why it failed.
        events: What the step logged, as JSON text.
        started_at_us: When it began.
        message_id: The row that carried the task, to be deleted with it.
    """

    run_id: str
    seq: int
    attempt: int
    output: str | None = None
    failure: Failure | None = None
    events: str | None = None
    started_at_us: int | None = None
    message_id: int | None = None

    def with_message(self, message_id: int) -> AttemptResult:
        """Return the result together with the row that carried its task."""
        return replace(self, message_id=message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settler:
    """Settles attempts for one instance.

    Attributes:
        owner: This instance.
        store: The store.
        dbclock: The database's clock.
        ids: Randomness for jitter.
        lease_us: Length of a lease.
        wants_run: Whether this instance has room and the code to go on with the run itself.
    """

    owner: str
    store: Store
    dbclock: DatabaseClock
    ids: Ids
    lease_us: int
    wants_run: Callable[[str], bool]

    def settle_step(self, result: AttemptResult) -> Settled:
        """Store the result, or the deadline of the next attempt, and wake the run."""
        retry_us = None if result.failure is None else self._retry_at_us(result, result.failure)
        settlement = Settlement(
            run_id=result.run_id,
            seq=result.seq,
            attempt=result.attempt,
            status=self._status(result, retry_us),
            output=result.output,
            error=None if result.failure is None else result.failure.to_json(),
            events=result.events,
            started_at_us=result.started_at_us,
            retry_at_us=retry_us,
            message_id=result.message_id,
            claim=retry_us is None and self.wants_run(result.run_id),
        )
        return self.store.settle_steps(self.owner, [settlement], lease_us=self.lease_us)[0]

    @staticmethod
    def _status(result: AttemptResult, retry_us: int | None) -> CheckpointStatus:
        if result.failure is None:
            return CheckpointStatus.COMPLETED
        return CheckpointStatus.FAILED if retry_us is None else CheckpointStatus.PENDING

    def _retry_at_us(self, result: AttemptResult, failure: Failure) -> int | None:
        stored = self.store.read_policy(result.run_id, result.seq)
        if stored is None:
            return None
        policy = RetryPolicy.from_json(stored)
        return retry_at_us(failure, result.attempt, policy, self.ids.random(), self.dbclock.now_us())
