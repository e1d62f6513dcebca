"""An instance that executes: body threads, step threads, the keeper, the hints and the loop, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from durable.core.durations import to_us
from durable.core.failure import Failure
from durable.core.spawn import Thread
from durable.core.states import RunStatus
from durable.engine.assembly import make_advancer, make_beats, make_executor, make_holdings, make_settler
from durable.engine.bodies import PARKED_PER_THREAD, BodyPool, Callbacks
from durable.engine.dispatch import routing_token
from durable.engine.engine import Engine
from durable.engine.keeper import Keeper, SlowSteps
from durable.engine.loop import Hands, Loop
from durable.engine.makebody import make_turn
from durable.engine.steppool import StepPool
from durable.replay.decision import Decision
from durable.store.errors import StoreTrouble
from durable.store.records import ClaimedRun, Interest, Recovered, Settled, TurnEnd

HINT_WAIT_S = 1.0
DRAIN_LOOK_S = 0.02
SWALLOWED = Failure(
    kind="SuspensionSwallowed",
    code="suspension_swallowed",
    message=(
        "The body caught what ends a suspended turn: a bare 'except:' (or 'except BaseException:' without 'raise') "
        "stands around an operation. Catch Exception instead."
    ),
    retryable=False,
)
logger = logging.getLogger("durable.engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker process does.

    Attributes:
        concurrency: Bodies at once; ``None`` takes the setting, 0 drives no runs.
        step_concurrency: Dispatched steps at once; ``None`` takes the setting, 0 serves no steps.
        queues: Step queues to serve; ``None`` serves every step that the process has.
        timers: Whether to mind timers, recovery and time limits.
        once: Whether to end when nothing is left to do now.
        park_limit: Parked bodies per thread; 0 parks none.
    """

    concurrency: int | None = None
    step_concurrency: int | None = None
    queues: Sequence[str] | None = None
    timers: bool = True
    once: bool = False
    park_limit: int = PARKED_PER_THREAD


class Worker:
    """Executes runs and steps in this process.

    Args:
        engine: The engine of the process.
        options: What to do.
    """

    def __init__(self, engine: Engine, options: WorkerOptions | None = None) -> None:
        self.engine = engine
        self.options = options or WorkerOptions()
        self.holdings = make_holdings(engine)
        self.beats = make_beats(engine)
        self.slow_steps = SlowSteps(engine.ports, engine.dbclock)
        self.bodies = self._make_bodies()
        self.steps = self._make_steps()
        self.interest = self._make_interest()
        self.loop = self._make_loop()
        self.keeper = Keeper(
            engine.owner,
            engine.ports,
            self.holdings,
            self.slow_steps,
            self.beats,
            stamped=self._stamped,
            lease_us=to_us(engine.config.lease),
        )
        self._stop_hints = engine.ports.spawn.event()
        self._hint_thread: Thread | None = None

    def _make_bodies(self) -> BodyPool | None:
        engine, asked = self.engine, self.options.concurrency
        size = engine.config.concurrency if asked is None else asked
        if not engine.config.drive or size == 0:
            return None
        callbacks = Callbacks(
            make_turn=partial(make_turn, engine),
            workflow=engine.registry.workflow,
            freed=self._freed,
            ended=self._ended,
            suspended=self._suspended,
            misbehaved=self._misbehaved,
            release=self._release,
        )
        advancer = make_advancer(engine, self.holdings, self.beats, self.slow_steps)
        return BodyPool(
            engine.ports, advancer, engine.dbclock, callbacks, size=size, park_limit=self.options.park_limit
        )

    def _make_steps(self) -> StepPool | None:
        engine, asked = self.engine, self.options.step_concurrency
        size = engine.config.step_concurrency if asked is None else asked
        if size == 0:
            return None
        pool = StepPool(
            engine,
            make_executor(engine),
            make_settler(engine, self._wants_run),
            self.beats,
            self.holdings,
            settled=self._settled,
            freed=self._freed,
            size=size,
        )
        engine.transport.attach(pool.submit_task)
        return pool

    def _make_interest(self) -> Interest:
        tokens = self._tokens() if self.steps is not None else ()
        return self.engine.interest(tokens=tokens, drive=self.bodies is not None)

    def _tokens(self) -> tuple[str, ...]:
        partition, registry = self.engine.own_partition, self.engine.registry
        if self.options.queues is not None:
            return tuple(routing_token(queue, partition) for queue in self.options.queues)
        steps = [registry.step(name) for name in registry.step_names()]
        named = {(step.config.queue or step.name, step.config.partition or partition) for step in steps}
        return tuple(sorted(routing_token(queue, each) for queue, each in named))

    def _make_loop(self) -> Loop:
        engine = self.engine
        hands = Hands(
            bodies=self.bodies,
            steps=self.steps,
            holdings=self.holdings,
            recovered=self._recovered,
            cancel=engine.cancel,
            timers=self.options.timers,
            idle=self._is_idle if self.options.once else None,
        )
        return Loop(engine, self.interest, hands)

    def _freed(self) -> None:
        self.loop.freed()

    def _wants_run(self, run_id: str) -> bool:
        return self.bodies is not None and self.bodies.room() > 0

    def _settled(self, settled: Settled, asked_at: float) -> None:
        bodies = self.bodies
        if bodies is None:
            self.engine.changed()
        elif settled.claimed is not None:
            self._go_on_with(bodies, settled.claimed, asked_at)
        else:
            self.loop.poke(runs=True)

    def _go_on_with(self, bodies: BodyPool, claim: ClaimedRun, asked_at: float) -> None:
        """Execute a run that this instance holds; one that it knew of looks again."""
        if not self.holdings.take([claim.lease], asked_at):
            bodies.wake_held(claim.lease.run_pk)
        elif (claim.workflow, claim.version) in self.interest.workflows:
            bodies.submit(claim)
        else:
            self._release(claim)

    def _release(self, claim: ClaimedRun) -> None:
        """Give back a run that is not executed here after all."""
        if self.holdings.is_good(claim.lease):
            self._give_back(claim)
        self.holdings.drop(claim.lease)

    def _give_back(self, claim: ClaimedRun) -> None:
        end = TurnEnd(lease=claim.lease, status=RunStatus.SUSPENDED, wake_at_us=self.engine.dbclock.now_us())
        store = self.engine.store
        try:
            while not store.end_turns([end])[0] and store.begin_turn(claim.lease) is not None:
                logger.debug("A wake met a run that is given back", extra={"run_id": claim.lease.run_id})
        except StoreTrouble:
            logger.warning("A run could not be given back; its lease runs out", extra={"run_id": claim.lease.run_id})

    def _stamped(self, run_pk: int) -> None:
        if self.bodies is not None:
            self.bodies.wake_held(run_pk)

    def _suspended(self, decision: Decision | None) -> None:
        if decision is None:
            return
        self.loop.poke(messages=decision.dispatches, wake_at_us=decision.wake_at_us)
        if decision.dispatches:
            self.engine.changed()

    def _ended(self, claim: ClaimedRun, decision: Decision) -> None:
        run_id, failure = claim.lease.run_id, decision.failure
        if failure is None:
            logger.debug("Run %s is %s", run_id, decision.status, extra={"run_id": run_id})
        else:
            logger.warning(
                "Run %s failed: %s; see durable_runs", run_id, failure.code or failure.kind, extra={"run_id": run_id}
            )

    def _recovered(self, run: Recovered) -> None:
        if run.status is RunStatus.PENDING:
            self.engine.changed()

    def _misbehaved(self, claim: ClaimedRun) -> None:
        logger.error("A workflow body swallowed its suspension", extra={"run_id": claim.lease.run_id})
        try:
            self.engine.store.fail_suspended(claim.lease.run_pk, generation=claim.generation, error=SWALLOWED.to_json())
        except StoreTrouble:
            logger.warning("That could not be stored", extra={"run_id": claim.lease.run_id})

    def start(self) -> None:
        """Start the threads; the loop is run by ``run``."""
        self.engine.store.session.prepare_for_work()
        if self.bodies is not None:
            self.bodies.start()
        if self.steps is not None:
            self.steps.start()
        self.keeper.start()
        if self.bodies is not None or self.steps is not None:  # hints tell of work to take; timers are polled
            self._hint_thread = self.engine.ports.spawn.thread("durable-hints", self._listen)

    def _listen(self) -> None:
        hints = self.engine.hints
        while not self._stop_hints.is_set():
            try:
                if hints.wait(HINT_WAIT_S):
                    self.loop.hinted()
            except Exception:  # noqa: BLE001  # whatever the driver raises, the polls stand behind it
                logger.debug("Hints cannot be heard; the polls go on")
                hints.close()
                self._stop_hints.wait(HINT_WAIT_S)
        hints.close()

    def run(self) -> None:
        """Run the loop in the calling thread until ``stop``."""
        self.loop.run()

    def stop(self) -> None:
        """Ask the loop to end; may be called from a signal handler."""
        self.loop.close()

    def drain(self, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Finish what is being executed and let go of the rest.

        Args:
            give_up: Asked again and again; true ends the draining at once.

        Returns:
            Whether everything was finished in time; what was not is left to run out.
        """
        clock = self.engine.ports.clock
        deadline = clock.monotonic() + self.engine.config.drain_timeout.total_seconds()
        self.loop.close()
        if self.steps is not None:
            self.steps.close()
        for claim in self.bodies.close() if self.bodies is not None else []:
            self._release(claim)
        while not self._is_idle() and clock.monotonic() < deadline and not give_up():
            clock.sleep(DRAIN_LOOK_S)
        drained = self._is_idle()
        self._end_threads(max(0.1, deadline - clock.monotonic()) if drained else 0.1)
        return drained

    def _end_threads(self, timeout_s: float) -> None:
        if self.bodies is not None:
            self.bodies.stop(timeout_s)
        if self.steps is not None:
            self.steps.stop(timeout_s)
        self._stop_hints.set()
        self.keeper.stop()
        self.engine.store.session.close()

    def _is_idle(self) -> bool:
        bodies_idle = self.bodies is None or self.bodies.is_idle()
        return bodies_idle and (self.steps is None or self.steps.is_idle())
