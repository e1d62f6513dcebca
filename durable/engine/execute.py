"""Executing a dispatched step: from a task to the result of one attempt."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from durable.authoring.current import StepContext
from durable.authoring.registry import Registry
from durable.core.errors import ControlFlow
from durable.core.failure import Failure
from durable.engine.settle import AttemptResult
from durable.engine.usercode import events_text, run_step
from durable.store.seam import Session
from durable.wire.messages import RemoteTask

LOST = "remote_step_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExecutor:
    """Runs the functions of steps.

    Attributes:
        session: The thread's way to the database.
        registry: The steps of this process.
        limit_bytes: Upper bound of a result.
    """

    session: Session
    registry: Registry
    limit_bytes: int

    def execute(
        self,
        task: RemoteTask,
        context: StepContext,
        started_at_us: int,
        still_held: Callable[[], None] = lambda: None,
    ) -> AttemptResult:
        """Run one attempt; whatever the function raises is the attempt's failure.

        Raises:
            StepNotRegistered: This process does not have the step.
        """
        step = self.registry.step(task.name)
        where = f"step {task.name!r}"
        output: str | None = None
        failure: Failure | None = None
        try:
            args, kwargs = step.binding.decode_arguments(json.dumps(task.input), where=where)
            result = run_step(self.session, context, lambda: step.function(*args, **kwargs), still_held=still_held)
            output = step.binding.encode_result(result, where=where, limit_bytes=self.limit_bytes)
        except ControlFlow:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a step raises is the step's failure
            failure = Failure.from_exception(error, seq=task.seq, attempts=task.attempt)
        return AttemptResult(
            run_id=task.run_id,
            seq=task.seq,
            attempt=task.attempt,
            output=output,
            failure=failure,
            events=events_text(context),
            started_at_us=started_at_us,
        )


def lost_result(task: RemoteTask, takes: int) -> AttemptResult:
    """Return the failure of a step whose takers died one after the other."""
    failure = Failure(
        kind="StepLost",
        code=LOST,
        message=f"step {task.name!r} was taken {takes} times and no taker lived to report",
        retryable=False,
        seq=task.seq,
        attempts=task.attempt,
    )
    return AttemptResult(run_id=task.run_id, seq=task.seq, attempt=task.attempt, failure=failure)
