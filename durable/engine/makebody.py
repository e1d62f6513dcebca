"""Making the body of a run: its context, its arguments, and the function on a greenlet or as a coroutine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from durable.authoring.refs import Workflow
from durable.engine.engine import Engine
from durable.engine.turn import Turn
from durable.engine.usercode import guard_operations
from durable.models.fields import instant_of
from durable.replay.body import Body, CoroutineBody, GreenletBody
from durable.replay.context import BodyContext, Surroundings
from durable.replay.history import CheckpointRecord, History
from durable.store.records import ClaimedRun


def make_turn(engine: Engine, claim: ClaimedRun, text: str, records: Sequence[CheckpointRecord]) -> Turn:
    """Return a turn whose body has not begun.

    Raises:
        WorkflowNotRegistered: This process does not have the workflow.
        VersionNotRegistered: It does not have the version.
    """
    workflow = engine.registry.workflow(claim.workflow, claim.version)
    surroundings = Surroundings(
        now=engine.dbclock.now,
        uuid=engine.ports.ids.uuid,
        random=engine.ports.ids.random,
        instant_us=instant_of,
        guard=partial(guard_operations, engine.store.session),
        limit_bytes=engine.config.payload_max_bytes,
    )
    context = BodyContext(claim.lease.run_id, claim.generation + 1, surroundings)
    context.is_replaying = bool(records)
    body = make_body(workflow, context, text, claim)
    history = History(claim.lease.run_id, records)
    return Turn(claim=claim, context=context, body=body, history=history, now_us=claim.claimed_at_us)


def make_body(workflow: Workflow[..., Any], context: BodyContext, text: str, claim: ClaimedRun) -> Body:
    """Return the body; its arguments are read inside it, so that a misfit is the run's failure."""
    where = f"input of run {claim.lease.run_id!r}"

    def run() -> Any:
        args, kwargs = workflow.binding.decode_arguments(text, where=where, shape=claim.input_shape)  # type: ignore[arg-type]  # stored text
        return workflow.function(context, *args, **kwargs)

    body: GreenletBody | CoroutineBody = CoroutineBody(run) if workflow.is_async else GreenletBody(run)
    context.body = body
    return body
