"""Starting runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from durable.authoring.refs import Workflow
from durable.core.durations import to_us
from durable.core.errors import OperationRefused, RunIdConflict
from durable.core.ids import check_name, check_run_id
from durable.engine.engine import Engine
from durable.replay.body import is_in_body
from durable.store.records import NewRun, Started

DEFAULT_NAMESPACE = "default"
logger = logging.getLogger("durable.engine")


def start_run(
    engine: Engine, workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], run_id: str | None
) -> Started:
    """Create a run, in the caller's transaction if one is open.

    Args:
        engine: The engine of the store.
        workflow: What to run, with its options.
        args: Positional arguments.
        kwargs: Keyword arguments.
        run_id: The caller's id; ``None`` makes one.

    Raises:
        OperationRefused: A workflow body called it, which every replay would do again.
        PayloadError: An argument cannot be carried, or does not fit its annotation.
        RunIdConflict: The id belongs to a run of another workflow.
        StoreUnavailable: The database did not answer.
    """
    if is_in_body():
        raise OperationRefused(
            "start()", "a workflow body would start the run again in every replay", "Start it in a step of the body."
        )
    warn_of_other_transaction(engine)
    run = new_run(engine, workflow, args, kwargs, run_id)
    started = store_run(engine, run)
    if started.created:
        engine.changed()
    else:
        check_existing(started, run)
    return started


def new_run(
    engine: Engine, workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], run_id: str | None
) -> NewRun:
    """Check everything about a run before anything is written."""
    name = f"workflow {workflow.name!r}"
    limit = engine.config.payload_max_bytes
    text = workflow.binding.encode_arguments(args, kwargs, where=name, limit_bytes=limit)
    workflow.binding.check_input(text, where=name)
    options = workflow.config
    engine.registry.workflow(workflow.name, options.version)
    timeout = options.execution_timeout
    return NewRun(
        run_id=engine.ports.ids.run_id() if run_id is None else check_run_id(run_id),
        workflow=workflow.name,
        version=options.version,
        input=text,
        input_shape=workflow.binding.shape,
        origin=workflow.origin.partition(":")[0],
        namespace=check_name("namespace", options.namespace or engine.config.namespace or DEFAULT_NAMESPACE),
        priority=options.priority,
        tags=json.dumps([check_name("tag", tag) for tag in options.tags]),
        execution_timeout_us=None if timeout is None else to_us(timeout),
    )


def store_run(engine: Engine, run: NewRun) -> Started:
    """Write a run; outside a transaction a lost answer is asked for again."""
    return engine.persistence.ask(engine.store.session, lambda: engine.store.start_runs([run])[0])


def warn_of_other_transaction(engine: Engine) -> None:
    """Say that a transaction on another database does not carry the run: it exists although that one rolls back."""
    alias = engine.store.session.open_transaction()
    if alias is not None and not engine.store.session.in_transaction():
        logger.warning(
            "A run is started inside a transaction on another database, which it is not part of",
            extra={"open_alias": alias, "store_alias": engine.alias},
        )


def check_existing(started: Started, run: NewRun) -> None:
    """Say what it means that the id was there already.

    Raises:
        RunIdConflict: It belongs to a run of another workflow.
    """
    if started.workflow != run.workflow:
        raise RunIdConflict(run.run_id, started.workflow, run.workflow)
    if started.input != run.input:
        logger.warning(
            "Run %s was started again with another input, which is ignored", run.run_id, extra={"run_id": run.run_id}
        )
