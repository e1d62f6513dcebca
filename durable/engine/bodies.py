"""The threads that drive bodies. A sync body stays on its thread; parked ones wait there for their next turn."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable.core.errors import LeaseLost
from durable.core.spawn import Queue, Thread
from durable.engine.advance import Advancer, Finish, Verdict
from durable.engine.dbclock import DatabaseClock
from durable.engine.ports import Ports
from durable.engine.turn import Turn
from durable.replay.decision import Decision
from durable.replay.history import CheckpointRecord
from durable.store.records import ClaimedRun

PARKED_PER_THREAD = 500
STOP = None
logger = logging.getLogger("durable.engine")


@dataclass(slots=True, kw_only=True)
class Held:
    """A run whose lease is kept while its body waits; ``turn`` is gone when the body was not parked."""

    claim: ClaimedRun
    thread: BodyThread
    turn: Turn | None
    look_at_us: int | None


@dataclass(slots=True, kw_only=True)
class BodyThread:
    """One thread, its jobs, and the bodies parked in it, the longest unused first."""

    inbox: Queue[Callable[[], None] | None]
    load: int = 0
    parked: OrderedDict[int, Turn] = field(default_factory=OrderedDict)
    handle: Thread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """What was read for a claimed run in the batch that claimed it."""

    input: str
    history: Sequence[CheckpointRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What the pool tells its instance.

    Attributes:
        make_turn: Makes a fresh body for a run and its history.
        workflow: Finds the workflow of a run.
        freed: A place became free.
        ended: A run has ended.
        suspended: A run was suspended until an instant at the latest.
        misbehaved: A body swallowed its discarding.
        release: Gives back a run whose body waits.
    """

    make_turn: Callable[[ClaimedRun, str, Sequence[CheckpointRecord]], Turn]
    workflow: Callable[[str, str], Any]
    freed: Callable[[], None]
    ended: Callable[[ClaimedRun, Decision], None]
    suspended: Callable[[Decision | None], None]
    misbehaved: Callable[[ClaimedRun], None]
    release: Callable[[ClaimedRun], None]


class BodyPool:
    """Executes turns.

    Args:
        ports: Store, clock and threads.
        advancer: Drives a turn.
        dbclock: The database's clock.
        callbacks: What to tell the instance.
        size: How many threads.
        park_limit: How many bodies stay parked in each thread; 0 parks none.
    """

    def __init__(
        self,
        ports: Ports,
        advancer: Advancer,
        dbclock: DatabaseClock,
        callbacks: Callbacks,
        *,
        size: int,
        park_limit: int = PARKED_PER_THREAD,
    ) -> None:
        self._ports = ports
        self._advancer = advancer
        self._dbclock = dbclock
        self._callbacks = callbacks
        self._park_limit = park_limit
        self._lock = ports.spawn.lock()
        self._homes: dict[int, BodyThread] = {}
        self._held: dict[int, Held] = {}
        self._early: set[int] = set()
        self._running: dict[int, BodyThread] = {}
        self._turns: Counter[int] = Counter()
        self._active = 0
        self._closing = False
        self._threads = [BodyThread(inbox=ports.spawn.queue()) for _ in range(size)]

    def start(self) -> None:
        """Start the threads."""
        for index, thread in enumerate(self._threads):
            thread.handle = self._ports.spawn.thread(f"durable-body-{index}", self._serve(thread))

    def _serve(self, thread: BodyThread) -> Callable[[], None]:
        def serve() -> None:
            while (job := thread.inbox.get()) is not STOP:
                try:
                    job()
                except Exception:
                    logger.exception("A body thread met an error and goes on")
            for turn in thread.parked.values():
                self._discard(turn)
            thread.parked.clear()
            self._ports.store.session.leave_thread()

        return serve

    def room(self) -> int:
        """Return how many more runs may be taken now."""
        return 0 if self._closing else max(0, len(self._threads) - self._active)

    def is_idle(self) -> bool:
        """Tell whether nothing is being executed (parked and held bodies wait)."""
        return self._active == 0

    def known(self) -> list[int]:
        """Return the runs that are executed or held here."""
        with self._lock:
            return [*self._running, *self._held]

    def is_parked(self, run_pk: int) -> bool:
        """Tell whether a body of the run is parked here."""
        return run_pk in self._homes

    def submit(self, claim: ClaimedRun, prefetched: Prefetched | None = None) -> None:
        """Execute a turn of a claimed run."""
        run_pk = claim.lease.run_pk
        with self._lock:
            thread = self._choose(run_pk)
            self._begin(run_pk, thread)
        thread.inbox.put(lambda: self._run(thread, claim, prefetched))

    def _begin(self, run_pk: int, thread: BodyThread) -> None:
        self._active += 1
        self._turns[run_pk] += 1
        self._running[run_pk] = thread
        thread.load += 1

    def _leave(self, run_pk: int, thread: BodyThread) -> bool:
        """Note the end of a turn; return whether a wake came while it was executed."""
        self._active -= 1
        thread.load -= 1
        self._turns[run_pk] -= 1
        if self._turns[run_pk] == 0:
            del self._turns[run_pk], self._running[run_pk]
        woken = run_pk in self._early
        self._early.discard(run_pk)
        return woken

    def _choose(self, run_pk: int) -> BodyThread:
        least = min(self._threads, key=lambda thread: thread.load)
        if run_pk in self._running:
            return self._running[run_pk]
        home = self._homes.get(run_pk)
        if home is None:
            return least
        if home.load == 0 or least.load > 0:
            return home
        del self._homes[run_pk]
        home.inbox.put(lambda: self._evict(home, run_pk))
        return least

    def _evict(self, thread: BodyThread, run_pk: int) -> None:
        turn = thread.parked.pop(run_pk, None)
        if turn is not None:
            self._discard(turn)

    def _run(self, thread: BodyThread, claim: ClaimedRun, prefetched: Prefetched | None) -> None:
        finish: Finish | None = None
        turn: Turn | None = None
        try:
            turn = self._resumed(thread, claim) or self._fresh(claim, prefetched)
            finish = self._advance(turn)
        except LeaseLost:
            run_id = claim.lease.run_id
            logger.info("The lease of run %s was lost; its turn stops", run_id, extra={"run_id": run_id})
        except Exception:
            logger.exception("A turn ended in an error of the engine", extra={"run_id": claim.lease.run_id})
        self._finish(thread, claim, turn, finish)

    def _resumed(self, thread: BodyThread, claim: ClaimedRun) -> Turn | None:
        turn = thread.parked.pop(claim.lease.run_pk, None)
        if turn is None:
            return None
        with self._lock:
            if self._homes.get(claim.lease.run_pk) is thread:
                del self._homes[claim.lease.run_pk]
        if turn.claim.generation != claim.generation or turn.waiting is None:
            self._discard(turn)
            return None
        turn.claim = claim
        try:
            self._advancer.refresh(turn, turn.waiting, claim.claimed_at_us)
        except BaseException:
            self._discard(turn)
            raise
        return turn

    def _fresh(self, claim: ClaimedRun, prefetched: Prefetched | None) -> Turn:
        if claim.input is not None:
            return self._callbacks.make_turn(claim, claim.input, ())
        return self._replayed(claim, prefetched or self.prefetch([claim])[claim.lease.run_pk])

    def _replayed(self, claim: ClaimedRun, prefetched: Prefetched) -> Turn:
        return self._callbacks.make_turn(claim, prefetched.input, prefetched.history)

    def prefetch(self, claims: Sequence[ClaimedRun]) -> dict[int, Prefetched]:
        """Read inputs and histories of claimed runs, two statements for all."""
        pks = [claim.lease.run_pk for claim in claims]
        store = self._ports.store
        writer = self._advancer.writer

        def still_wanted() -> None:
            writer.holdings.require(claims[0].lease)

        inputs = writer.persistence.until(lambda: store.read_inputs(pks), still_wanted)
        histories = writer.persistence.until(lambda: store.read_histories(pks), still_wanted)
        return {pk: Prefetched(input=inputs[pk], history=histories.get(pk, ())) for pk in pks if pk in inputs}

    def _advance(self, turn: Turn) -> Finish:
        workflow = self._callbacks.workflow(turn.claim.workflow, turn.claim.version)
        return self._advancer.advance(turn, workflow)

    def _finish(self, thread: BodyThread, claim: ClaimedRun, turn: Turn | None, finish: Finish | None) -> None:
        held: Held | None = None
        if finish is None:
            self._advancer.writer.holdings.drop(claim.lease)
            if turn is not None:
                self._discard(turn)
        elif finish.verdict is Verdict.SUSPENDED and turn is not None:
            self._park(thread, turn)
        elif finish.verdict is Verdict.HELD and turn is not None:
            held = self._held_turn(thread, turn, finish)
        run_pk = claim.lease.run_pk
        with self._lock:
            closing = self._closing
            woken = self._leave(run_pk, thread) if not closing else False
            if held is not None and not closing:
                self._held[run_pk] = held
        if closing:
            self._finish_closing(thread, claim, held)
        self._tell(claim, finish)
        if held is not None and woken:
            self.wake_held(run_pk)

    def _finish_closing(self, thread: BodyThread, claim: ClaimedRun, held: Held | None) -> None:
        """Give back a run that would be held, before the drain may find that nothing is executed."""
        if held is not None:
            self._callbacks.release(claim)
        with self._lock:
            self._leave(claim.lease.run_pk, thread)

    def _tell(self, claim: ClaimedRun, finish: Finish | None) -> None:
        if finish is not None and finish.verdict is Verdict.ENDED and finish.decision is not None:
            self._callbacks.ended(claim, finish.decision)
        elif finish is not None and finish.verdict is Verdict.SUSPENDED:
            self._callbacks.suspended(finish.decision)
        self._callbacks.freed()

    def _park(self, thread: BodyThread, turn: Turn) -> None:
        if self._park_limit == 0:
            self._discard(turn)
            return
        thread.parked[turn.lease.run_pk] = turn
        with self._lock:
            self._homes[turn.lease.run_pk] = thread
        while len(thread.parked) > self._park_limit:
            run_pk, oldest = thread.parked.popitem(last=False)
            with self._lock:
                self._homes.pop(run_pk, None)
            self._discard(oldest)

    def _held_turn(self, thread: BodyThread, turn: Turn, finish: Finish) -> Held:
        kept: Turn | None = turn
        if self._park_limit == 0:
            self._discard(turn)
            kept = None
        return Held(claim=turn.claim, thread=thread, turn=kept, look_at_us=finish.look_at_us)

    def wake_held(self, run_pk: int) -> None:
        """Let a held run look at what it waits for; one that is still being executed looks when it is held."""
        with self._lock:
            held = self._held.pop(run_pk, None)
            if held is None:
                if run_pk in self._running:
                    self._early.add(run_pk)
                return
            self._begin(run_pk, held.thread)
        held.thread.inbox.put(lambda: self._look(held))

    def wake_due(self) -> int | None:
        """Wake the held runs whose time has come; return the next instant at which one is due."""
        now_us = self._dbclock.now_us()
        with self._lock:
            instants = {pk: held.look_at_us for pk, held in self._held.items() if held.look_at_us is not None}
        for run_pk, look_at_us in instants.items():
            if look_at_us <= now_us:
                self.wake_held(run_pk)
        return min((instant for instant in instants.values() if instant > now_us), default=None)

    def _look(self, held: Held) -> None:
        claim = held.claim
        finish: Finish | None = None
        turn = held.turn
        writer = self._advancer.writer
        try:
            now_us = writer.persistence.until(
                lambda: self._ports.store.begin_turn(claim.lease), lambda: writer.holdings.require(claim.lease)
            )
            if now_us is None:
                raise LeaseLost(claim.lease.run_id)
            if turn is None or turn.waiting is None:
                turn = self._replayed(claim, self.prefetch([claim])[claim.lease.run_pk])
                turn.now_us = now_us
            else:
                self._advancer.refresh(turn, turn.waiting, now_us)
            finish = self._advance(turn)
        except LeaseLost:
            run_id = claim.lease.run_id
            logger.info("The lease of run %s was lost; its turn stops", run_id, extra={"run_id": run_id})
        except Exception:
            logger.exception("A turn ended in an error of the engine", extra={"run_id": claim.lease.run_id})
        self._finish(held.thread, claim, turn, finish)

    def _discard(self, turn: Turn) -> None:
        if not turn.body.discard():
            self._callbacks.misbehaved(turn.claim)

    def close(self) -> list[ClaimedRun]:
        """Take nothing more; return the held runs, which wait for others now."""
        with self._lock:
            self._closing = True
            held = list(self._held.values())
            self._held.clear()
        return [each.claim for each in held]

    def stop(self, timeout_s: float) -> None:
        """End the threads; parked bodies are thrown away."""
        for thread in self._threads:
            thread.inbox.put(STOP)
        deadline = self._ports.clock.monotonic() + timeout_s
        for thread in self._threads:
            if thread.handle is not None:
                thread.handle.join(max(0.0, deadline - self._ports.clock.monotonic()))
