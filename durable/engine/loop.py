"""The loop of a worker: look, claim, hand over, and mind what is overdue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from durable.core.durations import to_us
from durable.core.errors import LeaseLost, StoreUnavailable
from durable.core.failure import Failure
from durable.core.states import RunStatus
from durable.engine.bodies import BodyPool, Prefetched
from durable.engine.engine import Engine
from durable.engine.leases import Holdings
from durable.engine.steppool import StepPool
from durable.store.errors import StoreTrouble
from durable.store.records import ClaimedRun, HeldMessage, Interest, Look, Recovered
from durable.store.signals import WAKE
from durable.transports.db import TASK

MOST_RUNS_IN_HAND = 64
EAGER_S = 0.100
EAGER_WAIT_S = 0.010
TROUBLE_WAIT_S = 1.0
TROUBLE_REPORT_S = 60.0
CANCEL = "cancel"
HANDBACK_US = 60_000_000
logger = logging.getLogger("durable.engine")


@dataclass(slots=True, kw_only=True)
class Pulse:
    """What the loop knows about what there is to do."""

    runs_hot: bool = True
    messages_hot: bool = True
    eager_until: float = 0.0
    quiet_s: float = 0.0
    next_at_us: int | None = None
    looked_at: float = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What the loop works with.

    Attributes:
        bodies: Executes runs; ``None`` in a process that drives none.
        steps: Executes steps; ``None`` in a process that serves none.
        holdings: What is held.
        recovered: Told of runs that ended by recovery or a time limit, or were put back.
        cancel: Cancels a run by id.
        timers: Whether to mind what is overdue.
        idle: Tells that nothing is being executed; where it is given, the loop ends when nothing is left to do.
    """

    bodies: BodyPool | None
    steps: StepPool | None
    holdings: Holdings
    recovered: Callable[[Recovered], None]
    cancel: Callable[[str], object]
    timers: bool
    idle: Callable[[], bool] | None


class Loop:
    """Finds work for one instance.

    Args:
        engine: Store, clock and settings.
        interest: What this instance can take.
        hands: What it works with.
    """

    def __init__(self, engine: Engine, interest: Interest, hands: Hands) -> None:
        self._owner = engine.owner
        self._config = engine.config
        self._ports = engine.ports
        self._dbclock = engine.dbclock
        self._interest = interest
        self._holdings = hands.holdings
        self._bodies = hands.bodies
        self._steps = hands.steps
        self._recovered = hands.recovered
        self._cancel = hands.cancel
        self._timers = hands.timers
        self._idle = hands.idle
        self._lease_us = to_us(engine.config.lease)
        self._pulse = Pulse()
        self._wake = engine.ports.spawn.event()
        self._closing = False
        self._errands: dict[int, HeldMessage] = {}
        self._adopt_at: float | None = None
        self._in_doubt_since: float | None = None
        self._reported_at = float("-inf")
        self.last_look: Look | None = None

    def poke(self, *, runs: bool = False, messages: bool = False, wake_at_us: int | None = None) -> None:
        """Tell the loop that there is work, or will be at an instant."""
        pulse = self._pulse
        pulse.runs_hot = pulse.runs_hot or runs
        pulse.messages_hot = pulse.messages_hot or messages
        if wake_at_us is not None and (pulse.next_at_us is None or wake_at_us < pulse.next_at_us):
            pulse.next_at_us = wake_at_us
            self._wake.set()
        if runs or messages:
            self._wake.set()

    def freed(self) -> None:
        """Tell the loop that a place became free."""
        if self._pulse.runs_hot or self._pulse.messages_hot:
            self._wake.set()

    def hinted(self) -> None:
        """Tell the loop that another process did something: look now, and often for a short while."""
        self._pulse.eager_until = self._ports.clock.monotonic() + EAGER_S
        self._wake.set()

    def close(self) -> None:
        """Claim nothing more."""
        self._closing = True
        self._wake.set()

    def run(self) -> None:
        """Work until ``close``."""
        while not self._closing:
            try:
                wait_s = self.turn()
            except (StoreTrouble, StoreUnavailable):
                self._report_trouble()
                wait_s = min(TROUBLE_WAIT_S * (0.75 + self._ports.ids.random() / 2), self._adopts_in_s())
            except Exception:
                logger.exception("The loop met an error and goes on")
                wait_s = TROUBLE_WAIT_S
            if wait_s > 0 and not self._closing:
                self._wake.wait(wait_s)
            self._wake.clear()

    def _report_trouble(self) -> None:
        now = self._ports.clock.monotonic()
        if now - self._reported_at >= TROUBLE_REPORT_S:
            self._reported_at = now
            logger.warning("The database does not answer; it is asked again every second")

    def turn(self) -> float:
        """Do one round; return how many seconds to wait before the next."""
        if self._adopt_at is not None and self._ports.clock.monotonic() >= self._adopt_at:
            self._adopt()
        if self._errands:
            self._run_errands()
        pulse = self._pulse
        if (not pulse.runs_hot and not pulse.messages_hot) or (
            self._timers and self._seconds_since_look() > self._config.timer_poll.total_seconds()
        ):
            self._look()
        busy = self._claim_runs() + self._take_messages()
        held_at_us = self._bodies.wake_due() if self._bodies is not None else None
        if busy == 0 and self._is_done():
            self._closing = True
            return 0.0
        return self._wait_s(busy > 0, held_at_us)

    def _is_done(self) -> bool:
        if self._idle is None or not self._idle():
            return False
        self._look()
        look = self.last_look
        return look is not None and not (look.runs_due or look.messages_ready or look.overdue) and self._idle()

    def _seconds_since_look(self) -> float:
        return self._ports.clock.monotonic() - self._pulse.looked_at

    def _look(self) -> None:
        asked_at = self._ports.clock.monotonic()
        look = self._ports.store.look(self._interest)
        self._dbclock.learn(look.now_us, asked_at)
        pulse = self._pulse
        pulse.looked_at = asked_at
        pulse.runs_hot = look.runs_due and self._bodies is not None
        pulse.messages_hot = look.messages_ready
        pulse.next_at_us = look.next_at_us
        self.last_look = look
        if look.overdue and self._timers:
            self._mind_overdue()

    def _claim_runs(self) -> int:
        if self._bodies is None or not self._pulse.runs_hot:
            return 0
        room = min(self._bodies.room(), MOST_RUNS_IN_HAND)
        if room == 0 or self._closing:
            return 0
        self._pulse.runs_hot = False
        asked_at = self._ports.clock.monotonic()
        with self._adopting_after_doubt():
            claims = self._ports.store.claim_runs(self._owner, self._interest, lease_us=self._lease_us, limit=room)
        if len(claims) == room:
            self._pulse.runs_hot = True
        self._hand_over_runs(self._bodies, claims, asked_at)
        return len(claims)

    def _hand_over_runs(self, bodies: BodyPool, claims: list[ClaimedRun], asked_at: float) -> None:
        if claims:
            self._dbclock.learn(claims[0].claimed_at_us, asked_at)
        taken = self._holdings.take([claim.lease for claim in claims], asked_at)
        fresh = [claim for claim in claims if claim.lease.run_pk in taken]
        cold = [claim for claim in fresh if claim.input is None and not bodies.is_parked(claim.lease.run_pk)]
        prefetched: Mapping[int, Prefetched] = {}
        if cold:
            with suppress(LeaseLost, ValueError):  # each turn finds out for itself
                prefetched = bodies.prefetch(cold)
        for claim in fresh:
            bodies.submit(claim, prefetched.get(claim.lease.run_pk))

    @contextmanager
    def _adopting_after_doubt(self) -> Iterator[None]:
        """See to it that what a claim granted whose answer is lost is adopted, as soon as nobody renews it."""
        asked_at = self._ports.clock.monotonic()
        try:
            yield
        except StoreTrouble:
            self._in_doubt_since = asked_at if self._in_doubt_since is None else self._in_doubt_since
            self._adopt_at = self._ports.clock.monotonic() + self._lease_us / 2_500_000
            raise

    def _adopts_in_s(self) -> float:
        return float("inf") if self._adopt_at is None else max(0.0, self._adopt_at - self._ports.clock.monotonic())

    def _adopt(self) -> None:
        """Take what was granted unheard; it counts from before the first request that may have granted it."""
        self._adopt_at = self._ports.clock.monotonic() + TROUBLE_WAIT_S  # unless it comes to its end
        asked_at = self._ports.clock.monotonic() if self._in_doubt_since is None else self._in_doubt_since
        store = self._ports.store
        if self._bodies is not None:
            known = [lease.run_pk for lease in self._holdings.leases()]
            self._hand_over_runs(self._bodies, store.adopt_runs(self._owner, known, lease_us=self._lease_us), asked_at)
        held = self._holdings.messages()
        self._hand_over_messages(store.adopt_messages(self._owner, held, lease_us=self._lease_us), asked_at)
        self._adopt_at = self._in_doubt_since = None

    def _take_messages(self) -> int:
        if not self._pulse.messages_hot or not self._interest.queues or self._closing:
            return 0
        room = self._steps.room() if self._steps is not None else 0
        queues = self._interest.queues if room else self._interest.queues[:1] if self._interest.drive else ()
        limit = room or (MOST_RUNS_IN_HAND if queues else 0)
        if limit == 0:
            return 0
        self._pulse.messages_hot = room == 0
        asked_at = self._ports.clock.monotonic()
        with self._adopting_after_doubt():
            messages = self._ports.store.take_messages(
                self._owner, queues, namespace=self._interest.namespace, lease_us=self._lease_us, limit=limit
            )
        if len(messages) == limit:
            self._pulse.messages_hot = True
        self._hand_over_messages(messages, asked_at)
        return len(messages)

    def _hand_over_messages(self, messages: list[HeldMessage], asked_at: float) -> None:
        taken = self._holdings.take_messages([message.id for message in messages], asked_at)
        for message in messages:
            if message.id not in taken:
                continue
            if not (message.kind == TASK and self._steps is not None and self._steps.submit(message)):
                self._errands[message.id] = message
        self._run_errands()

    def _run_errands(self) -> None:
        """Serve what needs no thread; what the store cannot do now is tried again next round."""
        held = [message for message in self._errands.values() if self._holdings.has_message(message.id)]
        wakes = [(message.id, message.body) for message in held if message.kind == WAKE]
        if wakes:
            woken = self._ports.store.serve_wakes(self._owner, wakes)
            self._pulse.runs_hot = self._pulse.runs_hot or bool(woken)
            self._forget_errands([message_id for message_id, _ in wakes])
        for message in held:
            if message.kind == CANCEL:
                self._cancel(message.body)
                self._ports.store.delete_messages(self._owner, [message.id])
                self._forget_errands([message.id])
        foreign = [message.id for message in held if message.kind not in {WAKE, CANCEL}]
        if foreign:
            logger.error("Messages that cannot be read here are handed back", extra={"message_ids": foreign})
            self._ports.store.give_back_messages(self._owner, foreign, delay_us=HANDBACK_US)
        self._forget_errands(list(self._errands))

    def _forget_errands(self, ids: list[int]) -> None:
        for message_id in ids:
            del self._errands[message_id]
            self._holdings.drop_message(message_id)

    def _mind_overdue(self) -> None:
        """Recover what dead instances held, and end runs whose time limit has passed."""
        store, batch = self._ports.store, self._config.timer_batch_size
        dead = Failure(
            kind="RunDead", code="recovery_gave_up", message="its process died too often while it was executed"
        )
        expired = Failure(kind="ExecutionTimeout", code="execution_timeout", message="its execution time limit passed")
        changed = store.recover_runs(max_attempts=self._config.max_recovery_attempts, limit=batch, error=dead.to_json())
        changed += store.expire_runs(limit=batch, error=expired.to_json())
        released = store.release_expired_holds(limit=batch)
        for run in changed:
            logger.warning(
                "Run %s, whose lease or time ran out, is %s now",
                run.run_id,
                run.status.value,
                extra={"run_id": run.run_id, "status": run.status.value},
            )
            self._recovered(run)
        pending = any(run.status is RunStatus.PENDING for run in changed)
        self._pulse.runs_hot = self._pulse.runs_hot or (pending and self._bodies is not None)
        self._pulse.messages_hot = self._pulse.messages_hot or released > 0

    def _wait_s(self, busy: bool, held_at_us: int | None) -> float:
        pulse = self._pulse
        fast_s, slow_s = (each.total_seconds() for each in self._config.poll)
        if pulse.runs_hot and self._bodies is not None and self._bodies.room():
            return 0.0
        if pulse.messages_hot and self._steps is not None and self._steps.room():
            return 0.0
        if self._ports.clock.monotonic() < pulse.eager_until:
            pulse.quiet_s = 0.0
            return EAGER_WAIT_S
        pulse.quiet_s = fast_s if busy else min(max(2 * pulse.quiet_s, fast_s), slow_s)
        instants = [at for at in (pulse.next_at_us, held_at_us) if at is not None]
        if not instants:
            return pulse.quiet_s
        until_s = max(0.0, (min(instants) - self._dbclock.now_us()) / 1_000_000)
        return min(pulse.quiet_s, until_s + 0.001)
