"""Putting the parts of an instance together, for worker processes and for execution in the calling thread alike."""

from __future__ import annotations

from collections.abc import Callable

from durable.core.durations import to_us
from durable.core.errors import StepNotRegistered
from durable.engine.advance import Advancer
from durable.engine.apply import Applier
from durable.engine.beats import Beats
from durable.engine.engine import Engine
from durable.engine.execute import StepExecutor
from durable.engine.keeper import SlowSteps
from durable.engine.leases import Holdings
from durable.engine.local import LocalWork
from durable.engine.settle import Settler
from durable.engine.suspend import StepWait
from durable.engine.writing import Writer


def make_holdings(engine: Engine) -> Holdings:
    """Return an empty list of what an instance holds."""
    return Holdings(engine.ports.clock, engine.ports.spawn, engine.config.lease.total_seconds())


def make_beats(engine: Engine) -> Beats:
    """Return what keeps the steps of an instance alive."""

    def has_time_limit(name: str) -> bool:
        try:
            options = engine.registry.step(name).config
        except StepNotRegistered:
            return False
        return options.timeout is not None or options.pickup_timeout is not None

    return Beats(
        engine.owner,
        engine.store,
        engine.ports.clock,
        engine.dbclock,
        engine.ports.spawn,
        throttle_s=engine.config.heartbeat_persist_throttle.total_seconds(),
        beats_at_once=has_time_limit,
    )


def make_advancer(engine: Engine, holdings: Holdings, beats: Beats, slow_steps: SlowSteps) -> Advancer:
    """Return what drives bodies."""
    applier = Applier(
        transport=engine.transport, partition=engine.own_partition, reconcile_us=to_us(engine.config.reconcile)
    )
    writer = Writer(
        store=engine.store,
        persistence=engine.persistence,
        holdings=holdings,
        applier=applier,
        dbclock=engine.dbclock,
    )
    local = LocalWork(
        writer=writer,
        clock=engine.ports.clock,
        ids=engine.ports.ids,
        watch=slow_steps.watch,
    )
    step_wait = StepWait(
        owner=engine.owner,
        allowance_us=to_us(engine.config.heartbeat_persist_throttle),
        heard_at_us=beats.heard_at_us,
    )
    return Advancer(writer=writer, local=local, step_wait=step_wait, limit_bytes=engine.config.payload_max_bytes)


def make_executor(engine: Engine) -> StepExecutor:
    """Return what runs the functions of steps."""
    return StepExecutor(
        session=engine.store.session, registry=engine.registry, limit_bytes=engine.config.payload_max_bytes
    )


def make_settler(engine: Engine, wants_run: Callable[[str], bool]) -> Settler:
    """Return what settles results; ``wants_run`` tells whether the instance goes on with the run itself."""
    return Settler(
        owner=engine.owner,
        store=engine.store,
        dbclock=engine.dbclock,
        ids=engine.ports.ids,
        lease_us=to_us(engine.config.lease),
        wants_run=wants_run,
    )
