"""Execution in the calling thread, for the ``memory`` transport: a run has gone its way when ``start`` returns."""

from __future__ import annotations

import logging

from durable.authoring.current import StepContext
from durable.core.durations import to_us
from durable.core.errors import LeaseLost, StepNotRegistered
from durable.core.states import RunStatus
from durable.engine.advance import Finish, Verdict
from durable.engine.assembly import make_advancer, make_beats, make_executor, make_holdings, make_settler
from durable.engine.engine import Engine
from durable.engine.keeper import SlowSteps
from durable.engine.makebody import make_turn
from durable.engine.turn import Turn
from durable.store.records import ClaimedRun, TurnEnd
from durable.store.signals import RUNS_QUEUE, WAKE
from durable.wire.messages import RemoteTask

BATCH = 64
logger = logging.getLogger("durable.engine")


class InlineExecution:
    """Executes what is due, whenever something of this process changed.

    Args:
        engine: The engine of the process.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._holdings = make_holdings(engine)
        self._beats = make_beats(engine)
        self._advancer = make_advancer(engine, self._holdings, self._beats, SlowSteps(engine.ports, engine.dbclock))
        self._executor = make_executor(engine)
        self._settler = make_settler(engine, lambda run_id: False)
        self._lease_us = to_us(engine.config.lease)
        engine.transport.attach(self.execute)

    def execute(self, task: RemoteTask) -> None:
        """Run a dispatched step and settle it; one that this process does not have stays unanswered."""
        context = StepContext(
            run_id=task.run_id, step_id=task.step_id, attempt=task.attempt, clock=self._engine.ports.clock
        )
        try:
            result = self._executor.execute(task, context, self._engine.dbclock.now_us())
        except StepNotRegistered:
            logger.warning("A step is not known here and stays unanswered", extra={"step_id": task.step_id})
            return
        self._settler.settle_step(result)

    def drive(self) -> None:
        """Execute all runs that are due."""
        if self._engine.store.session.in_transaction():
            return
        interest = self._engine.interest(tokens=(), drive=True)
        while True:
            self._serve_wakes()
            asked_at = self._engine.ports.clock.monotonic()
            claims = self._engine.store.claim_runs(self._engine.owner, interest, lease_us=self._lease_us, limit=1)
            if not claims:
                return
            self._holdings.take([claims[0].lease], asked_at)
            self._run(claims[0])

    def _serve_wakes(self) -> None:
        store, owner = self._engine.store, self._engine.owner
        held = store.take_messages(owner, [RUNS_QUEUE], namespace=None, lease_us=self._lease_us, limit=BATCH)
        wakes = [(message.id, message.body) for message in held if message.kind == WAKE]
        if wakes:
            store.serve_wakes(owner, wakes)
        for message in held:
            if message.kind != WAKE:
                self._engine.cancel(message.body)
                store.delete_messages(owner, [message.id])

    def _run(self, claim: ClaimedRun) -> None:
        store = self._engine.store
        text = claim.input if claim.input is not None else store.read_inputs([claim.lease.run_pk])[claim.lease.run_pk]
        turn = make_turn(
            self._engine, claim, text, store.read_histories([claim.lease.run_pk]).get(claim.lease.run_pk, ())
        )
        workflow = self._engine.registry.workflow(claim.workflow, claim.version)
        try:
            finish = self._advancer.advance(turn, workflow)
            while finish.verdict is Verdict.HELD and self._has_news(turn):
                finish = self._advancer.advance(turn, workflow)
            self._let_go(turn, finish)
        except LeaseLost:
            logger.info("A lease was lost; the turn stops", extra={"run_id": claim.lease.run_id})
        turn.body.discard()
        self._holdings.drop(claim.lease)

    def _has_news(self, turn: Turn) -> bool:
        now_us = self._engine.store.begin_turn(turn.lease)
        if now_us is None or turn.waiting is None:
            raise LeaseLost(turn.lease.run_id)
        self._advancer.refresh(turn, turn.waiting, now_us)
        return turn.history.answer(turn.waiting, now_us) is not None

    def _let_go(self, turn: Turn, finish: Finish) -> None:
        if finish.verdict is Verdict.HELD:
            end = TurnEnd(lease=turn.lease, status=RunStatus.SUSPENDED, wake_at_us=finish.look_at_us)
            self._engine.store.end_turns([end])
