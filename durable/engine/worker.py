"""An instance that executes: body threads, step threads, the keeper, the hints and the loop, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from durable.core.durations import to_us
from durable.core.errors import RunNotFound, StepNotRegistered, WrongState
from durable.core.failure import Failure
from durable.core.spawn import Thread
from durable.core.states import RunStatus
from durable.engine.advance import Advancer
from durable.engine.apply import Applier
from durable.engine.beats import Beats
from durable.engine.bodies import PARKED_PER_THREAD, BodyPool, Callbacks
from durable.engine.dispatch import routing_token
from durable.engine.engine import Engine
from durable.engine.execute import StepExecutor
from durable.engine.keeper import Keeper, SlowSteps
from durable.engine.leases import Holdings
from durable.engine.local import LocalWork
from durable.engine.loop import Loop
from durable.engine.makebody import make_turn
from durable.engine.settle import Settler
from durable.engine.steer import cancel_run
from durable.engine.steppool import StepPool
from durable.engine.suspend import StepWait
from durable.engine.writing import Writer
from durable.replay.decision import Decision
from durable.store.errors import StoreTrouble
from durable.store.records import ClaimedRun, Recovered, Settled, TurnEnd

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


class Worker:
    """Executes runs and steps in this process.

    Args:
        engine: The engine of the process.
        concurrency: Bodies at once; ``None`` takes the setting.
        step_concurrency: Dispatched steps at once; ``None`` takes the setting.
        queues: Routing tokens to serve; ``None`` serves every step that the process has.
        timers: Whether to mind timers, recovery and time limits.
        once: Whether to end when nothing is left to do now.
        park_limit: Parked bodies per thread; 0 parks none.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        concurrency: int | None = None,
        step_concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        timers: bool = True,
        once: bool = False,
        park_limit: int = PARKED_PER_THREAD,
    ) -> None:
        config = engine.config
        self.engine = engine
        self._drain_s = config.drain_timeout.total_seconds()
        lease_us = to_us(config.lease)
        ports, store, dbclock = engine.ports, engine.store, engine.dbclock
        bodies_at_once = config.concurrency if concurrency is None else concurrency
        steps_at_once = config.step_concurrency if step_concurrency is None else step_concurrency
        self.holdings = Holdings(ports.clock, ports.spawn, config.lease.total_seconds())
        self.beats = Beats(
            engine.owner,
            store,
            ports.clock,
            dbclock,
            ports.spawn,
            throttle_s=config.heartbeat_persist_throttle.total_seconds(),
            beats_at_once=self._has_time_limit,
        )
        self.slow_steps = SlowSteps(ports, dbclock)
        self.applier = Applier(
            transport=engine.transport, partition=engine.own_partition, reconcile_us=to_us(config.reconcile)
        )
        writer = Writer(
            store=store,
            persistence=engine.persistence,
            holdings=self.holdings,
            applier=self.applier,
            dbclock=dbclock,
        )
        advancer = Advancer(
            writer=writer,
            local=LocalWork(
                alias=engine.alias, writer=writer, clock=ports.clock, ids=ports.ids, watch=self.slow_steps.watch
            ),
            step_wait=StepWait(
                owner=engine.owner,
                allowance_us=to_us(config.heartbeat_persist_throttle),
                heard_at_us=self.beats.heard_at_us,
            ),
            limit_bytes=config.payload_max_bytes,
        )
        callbacks = Callbacks(
            make_turn=partial(make_turn, engine),
            workflow=engine.registry.workflow,
            freed=lambda: self.loop.freed(),
            ended=self._ended,
            suspended=self._suspended,
            misbehaved=self._misbehaved,
        )
        self.bodies: BodyPool | None = None
        if config.drive and bodies_at_once > 0:
            self.bodies = BodyPool(ports, advancer, dbclock, callbacks, size=bodies_at_once, park_limit=park_limit)
        self.steps: StepPool | None = None
        if steps_at_once > 0:
            self.steps = StepPool(
                ports,
                StepExecutor(registry=engine.registry, limit_bytes=config.payload_max_bytes),
                Settler(
                    owner=engine.owner,
                    store=store,
                    dbclock=dbclock,
                    ids=ports.ids,
                    lease_us=lease_us,
                    wants_run=self._wants_run,
                ),
                self.beats,
                self.holdings,
                engine.persistence,
                settled=self._settled,
                freed=lambda: self.loop.freed(),
                size=steps_at_once,
                most_takes=config.remote_redispatch_max,
            )
        tokens = self._tokens(queues) if self.steps is not None else ()
        self.interest = engine.interest(tokens=tokens, drive=self.bodies is not None)
        self.loop = Loop(
            engine.owner,
            config,
            ports,
            self.interest,
            self.holdings,
            dbclock,
            bodies=self.bodies,
            steps=self.steps,
            recovered=self._recovered,
            cancel=self._cancel,
            timers=timers,
            idle=self._is_idle if once else None,
        )
        self.keeper = Keeper(
            engine.owner,
            ports,
            self.holdings,
            self.slow_steps,
            self.beats,
            stamped=self._stamped,
            lease_us=lease_us,
        )
        self._stop_hints = ports.spawn.event()
        self._hint_thread: Thread | None = None
        if self.steps is not None:
            engine.transport.attach(self.steps.submit_task)

    def _tokens(self, queues: Sequence[str] | None) -> tuple[str, ...]:
        partition = self.engine.own_partition
        if queues is not None:
            return tuple(routing_token(queue, partition) for queue in queues)
        steps = (self.engine.registry.step(name) for name in self.engine.registry.step_names())
        named = [(step.config.queue or step.name, step.config.partition or partition) for step in steps]
        return tuple(sorted({routing_token(queue, each) for queue, each in named}))

    def _has_time_limit(self, name: str) -> bool:
        try:
            options = self.engine.registry.step(name).config
        except StepNotRegistered:
            return False
        return options.timeout is not None or options.pickup_timeout is not None

    def _wants_run(self, run_id: str) -> bool:
        return self.bodies is not None and self.bodies.room() > 0

    def _settled(self, settled: Settled) -> None:
        bodies = self.bodies
        if bodies is None:
            self.engine.changed()
        elif settled.claimed is not None:
            self._go_on_with(bodies, settled.claimed)
        elif settled.stamped_owner == self.engine.owner and settled.run_pk is not None:
            bodies.wake_held(settled.run_pk)
        else:
            self.loop.poke(runs=True)

    def _go_on_with(self, bodies: BodyPool, claim: ClaimedRun) -> None:
        asked_at = self.engine.ports.clock.monotonic() - 0.0
        if not self.holdings.take([claim.lease], asked_at):
            return
        if (claim.workflow, claim.version) in self.interest.workflows:
            bodies.submit(claim)
            return
        self._release(claim)

    def _release(self, claim: ClaimedRun) -> None:
        """Give back a run that is not executed here after all."""
        end = TurnEnd(lease=claim.lease, status=RunStatus.SUSPENDED, wake_at_us=self.engine.dbclock.now_us())
        try:
            self.engine.store.end_turns([end])
        except StoreTrouble:
            logger.warning("A run could not be given back; its lease runs out", extra={"run_id": claim.lease.run_id})
        self.holdings.drop(claim.lease)

    def _stamped(self, run_pk: int) -> None:
        if self.bodies is not None:
            self.bodies.wake_held(run_pk)

    def _suspended(self, decision: Decision | None) -> None:
        wake_at_us = None if decision is None else decision.wake_at_us
        staged = decision is not None and any(
            command.__class__.__name__ == "CallCommand" for command in decision.commands
        )
        self.loop.poke(messages=staged, wake_at_us=wake_at_us)
        if staged:
            self.engine.changed()

    def _ended(self, claim: ClaimedRun, decision: Decision) -> None:
        logger.debug("A run ended", extra={"run_id": claim.lease.run_id, "status": decision.status})

    def _recovered(self, run: Recovered) -> None:
        if run.status is RunStatus.PENDING:
            self.engine.changed()

    def _cancel(self, run_id: str) -> None:
        try:
            cancel_run(self.engine, run_id)
        except (RunNotFound, WrongState):
            logger.info("A run to be cancelled has ended", extra={"run_id": run_id})

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
        self._hint_thread = self.engine.ports.spawn.thread("durable-hints", self._listen)

    def _listen(self) -> None:
        hints = self.engine.hints
        while not self._stop_hints.is_set():
            try:
                if hints.wait(HINT_WAIT_S):
                    self.loop.hinted()
            except Exception:  # noqa: BLE001  # hints are never needed: listen again in a while
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
        deadline = clock.monotonic() + self._drain_s
        self.loop.close()
        if self.steps is not None:
            self.steps.close()
        for claim in self.bodies.close() if self.bodies is not None else []:
            self._release(claim)
        while not self._is_idle() and clock.monotonic() < deadline and not give_up():
            clock.sleep(DRAIN_LOOK_S)
        drained = self._is_idle()
        left_s = max(0.1, deadline - clock.monotonic()) if drained else 0.1
        if self.bodies is not None:
            self.bodies.stop(left_s)
        if self.steps is not None:
            self.steps.stop(left_s)
        self._stop_hints.set()
        self.keeper.stop()
        self.engine.store.session.close()
        return drained

    def _is_idle(self) -> bool:
        bodies_idle = self.bodies is None or self.bodies.is_idle()
        return bodies_idle and (self.steps is None or self.steps.is_idle())
