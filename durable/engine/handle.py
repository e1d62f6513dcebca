"""The handle of a run, as callers hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from durable.authoring import codec
from durable.authoring.handles import Run
from durable.core.durations import Duration, parse_duration
from durable.core.errors import (
    OperationRefused,
    ResultTimeout,
    RunCancelled,
    RunDead,
    RunFailed,
    RunNotCompleted,
    VersionNotRegistered,
    WorkflowNotRegistered,
)
from durable.core.failure import Failure
from durable.core.states import TERMINAL, RunStatus
from durable.engine.engine import Engine
from durable.engine.steer import cancel_run, read_run, retry_run, send_signal
from durable.store.records import RunRecord

T = TypeVar("T")
FIRST_LOOK_S = 0.001
LONGEST_LOOK_S = 0.25
ENDED_OTHERWISE: dict[RunStatus, type[RunNotCompleted]] = {
    RunStatus.FAILED: RunFailed,
    RunStatus.CANCELLED: RunCancelled,
    RunStatus.DEAD: RunDead,
}


async def in_a_thread(engine: Engine, wait: Callable[[], T]) -> T:
    """Wait in a thread of its own, and leave no connection there."""

    def wait_and_leave() -> T:
        try:
            return wait()
        finally:
            engine.store.session.leave_thread()

    return await sync_to_async(wait_and_leave, thread_sensitive=False)()


class RunHandle(Run[Any]):
    """Follow and steer one run.

    Args:
        engine: The engine of its store.
        run_id: Its id.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id

    def __repr__(self) -> str:
        return f"<Run {self._run_id!r}>"

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self._run_id

    def read(self) -> RunRecord:
        """Return the run as it stands now."""
        return read_run(self._engine, self._run_id)

    @property
    def status(self) -> RunStatus:
        """Return where the run stands."""
        return self.read().status

    @property
    def failure(self) -> Failure | None:
        """Return what ended the run, or ``None``."""
        error = self.read().error
        return None if error is None else Failure.from_json(error)

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the end of the run and return what the workflow returned."""
        run = self.wait(timeout)
        if run.status is RunStatus.COMPLETED:
            return codec.decode(run.output, self._annotation(run), where=f"result of run {self._run_id!r}")
        failure = None if run.error is None else Failure.from_json(run.error)
        raise ENDED_OTHERWISE[run.status](self._run_id, failure)

    def _annotation(self, run: RunRecord) -> Any:
        try:
            return self._engine.registry.workflow(run.workflow, run.version).binding.returns
        except (WorkflowNotRegistered, VersionNotRegistered):
            return Any

    def wait(self, timeout: Duration | None = None) -> RunRecord:
        """Wait for the end of the run and return it as it ended."""
        if self._engine.store.session.in_transaction():
            raise OperationRefused(
                "result()", "a transaction is open, in which its end could not be seen", "Wait after the commit."
            )
        clock = self._engine.ports.clock
        limit = None if timeout is None else parse_duration(timeout)
        deadline = None if limit is None else clock.monotonic() + limit.total_seconds()
        look_s = FIRST_LOOK_S
        while True:
            run = self.read()
            if run.status in TERMINAL:
                return run
            if deadline is not None and limit is not None and clock.monotonic() >= deadline:
                raise ResultTimeout(self._run_id, limit)
            clock.sleep(look_s if deadline is None else min(look_s, max(0.0, deadline - clock.monotonic())))
            look_s = min(1.3 * look_s, LONGEST_LOOK_S)

    def signal(self, token: str, payload: Any = None) -> None:
        """Send a signal to whoever waits for the token."""
        send_signal(self._engine, token, payload)

    def cancel(self, *, compensate: bool = False) -> None:
        """End the run as cancelled."""
        if compensate:
            raise OperationRefused(
                "cancel(compensate=True)", "compensations are not supported yet", "Cancel without them."
            )
        cancel_run(self._engine, self._run_id)

    def retry(self) -> None:
        """Put a failed, dead or cancelled run back in the queue."""
        retry_run(self._engine, self._run_id)

    async def aresult(self, timeout: Duration | None = None) -> Any:
        """Wait for the end of the run; see ``result``."""
        return await in_a_thread(self._engine, lambda: self.result(timeout))

    async def astatus(self) -> RunStatus:
        """Return where the run stands."""
        return (await sync_to_async(self.read)()).status

    async def asignal(self, token: str, payload: Any = None) -> None:
        """Send a signal; see ``signal``."""
        await sync_to_async(self.signal)(token, payload)

    async def acancel(self, *, compensate: bool = False) -> None:
        """End the run as cancelled; see ``cancel``."""
        await sync_to_async(self.cancel)(compensate=compensate)

    async def aretry(self) -> None:
        """Put the run back in the queue; see ``retry``."""
        await sync_to_async(self.retry)()
