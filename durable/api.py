"""The facade: what code outside a body does with runs. Each function takes ``using=`` and has an async twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import sync_to_async

from durable.authoring.handles import Run
from durable.authoring.refs import Workflow
from durable.core.durations import Duration
from durable.core.errors import RunNotFound
from durable.core.states import RunStatus
from durable.engine.handle import RunHandle, in_a_thread
from durable.engine.instance import get_engine
from durable.engine.start import start_run
from durable.engine.steer import cancel_run, read_run, retry_run, send_signal
from durable.models import StepCheckpoint, WorkflowRun
from durable.store.records import RunRecord

__all__ = [
    "acancel",
    "acheckpoints",
    "aget_run",
    "alist_runs",
    "aretry",
    "asignal",
    "astart",
    "await_run",
    "cancel",
    "checkpoints",
    "get_run",
    "list_runs",
    "retry",
    "signal",
    "start",
    "wait",
]
DEFAULT_LIMIT = 100


def start(
    workflow: Workflow[..., Any] | str,
    input: Any = None,
    *,
    id: str | None = None,
    version: str | None = None,
    namespace: str | None = None,
    tags: Sequence[str] | None = None,
    priority: int | None = None,
    using: str | None = None,
) -> Run[Any]:
    """Create a run and return at once; inside ``transaction.atomic()`` it is part of that transaction.

    Args:
        workflow: A workflow, or its name.
        input: Its one argument; a mapping by parameter name where it has several, nothing where it has none.
        id: Your own id, which makes starting it again harmless; ``None`` makes one.
        version: Which registered version; ``None`` takes the workflow's own, or the newest of a name.
        namespace: Whose pool runs it.
        tags: Tags of the run.
        priority: Higher first, on transports that order by it (``db`` takes the oldest first).
        using: Database alias of the store.

    Raises:
        WorkflowNotRegistered: There is no workflow of this name.
        VersionNotRegistered: There is none of this version.
        InvalidRunId: The id is empty, too long, or holds control characters.
        RunIdConflict: The id belongs to a run of another workflow.
        PayloadError: The input cannot be carried, or does not fit the annotations.
        StoreUnavailable: The database did not answer.
    """
    engine = get_engine(using)
    target = engine.registry.workflow(workflow, version) if isinstance(workflow, str) else workflow
    given = {"version": version, "namespace": namespace, "tags": tags, "priority": priority}
    target = target.options(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]  # checked there
    args, kwargs = _arguments(target, input)
    started = start_run(engine, target, args, kwargs, id)
    return RunHandle(engine, started.run_id)


def _arguments(workflow: Workflow[..., Any], value: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if workflow.binding.shape == "single":
        return (value,), {}
    if value is None:
        return (), {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{workflow.name} takes its input as a mapping by parameter name, not {type(value).__name__}")
    return (), value


def get_run(run_id: str, *, using: str | None = None) -> Run[Any]:
    """Return the handle of a run.

    Raises:
        RunNotFound: There is none with this id.
    """
    engine = get_engine(using)
    read_run(engine, run_id)
    return RunHandle(engine, run_id)


def wait(run_id: str, timeout: Duration | None = None, *, using: str | None = None) -> RunRecord:
    """Wait for the end of a run and return it as it ended, however that was.

    Raises:
        RunNotFound: There is none with this id.
        ResultTimeout: It had not ended in time.
        OperationRefused: A transaction is open.
    """
    return RunHandle(get_engine(using), run_id).wait(timeout)


def list_runs(
    *,
    status: RunStatus | str | None = None,
    workflow: str | None = None,
    namespace: str | None = None,
    before_id: int | None = None,
    limit: int = DEFAULT_LIMIT,
    using: str | None = None,
) -> list[WorkflowRun]:
    """Return runs, the newest first.

    Args:
        status: Only runs that stand so.
        workflow: Only runs of this workflow.
        namespace: Only runs of this pool.
        before_id: Only runs older than the one with this surrogate key: the last one of the page before.
        limit: How many at most.
        using: Database alias of the store.

    Raises:
        ValueError: There is no such status.
    """
    stands = None if status is None else RunStatus(status)
    filters: dict[str, Any] = {"status": stands, "workflow": workflow, "namespace": namespace, "id__lt": before_id}
    chosen = {key: value for key, value in filters.items() if value is not None}
    return list(WorkflowRun.objects.using(get_engine(using).alias).filter(**chosen).order_by("-id")[:limit])


def checkpoints(run_id: str, *, using: str | None = None) -> list[StepCheckpoint]:
    """Return the checkpoints of a run in the order of their positions.

    Raises:
        RunNotFound: There is no run with this id.
    """
    engine = get_engine(using)
    run = WorkflowRun.objects.using(engine.alias).filter(run_id=run_id).only("id").first()
    if run is None:
        raise RunNotFound(run_id)
    return list(StepCheckpoint.objects.using(engine.alias).filter(run_id=run.id).order_by("seq"))


def signal(token: str, payload: Any = None, *, using: str | None = None) -> None:
    """Send a signal to whoever waits for the token, now or later; inside ``atomic()`` it is part of that transaction.

    Raises:
        InvalidName: The token is empty, too long, or holds control characters.
        PayloadError: The payload cannot be carried.
        StoreUnavailable: The database did not answer.
    """
    send_signal(get_engine(using), token, payload)


def cancel(run_id: str, *, using: str | None = None) -> None:
    """End an open run as cancelled; inside ``atomic()`` it follows the commit.

    Raises:
        RunNotFound: There is none with this id.
        WrongState: It has ended already.
    """
    cancel_run(get_engine(using), run_id)


def retry(run_id: str, *, using: str | None = None) -> None:
    """Put a failed, dead or cancelled run back in the queue; what had completed is kept.

    Raises:
        RunNotFound: There is none with this id.
        WrongState: It has not ended, or it has completed.
    """
    retry_run(get_engine(using), run_id)


astart = sync_to_async(start)
aget_run = sync_to_async(get_run)
alist_runs = sync_to_async(list_runs)
acheckpoints = sync_to_async(checkpoints)
asignal = sync_to_async(signal)
acancel = sync_to_async(cancel)
aretry = sync_to_async(retry)


async def await_run(run_id: str, timeout: Duration | None = None, *, using: str | None = None) -> RunRecord:
    """Wait for the end of a run; see ``wait``."""
    engine = get_engine(using)
    return await in_a_thread(engine, lambda: RunHandle(engine, run_id).wait(timeout))


class EngineDriver:
    """Starts runs for ``Workflow.start`` and its kin."""

    def start(
        self,
        workflow: Workflow[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        run_id: str | None,
        using: str | None,
    ) -> Run[Any]:
        """Create a run and return its handle."""
        engine = get_engine(using)
        return RunHandle(engine, start_run(engine, workflow, args, kwargs, run_id).run_id)

    async def astart(
        self,
        workflow: Workflow[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        run_id: str | None,
        using: str | None,
    ) -> Run[Any]:
        """Create a run and return its handle."""
        return await sync_to_async(self.start)(workflow, args, kwargs, run_id=run_id, using=using)
