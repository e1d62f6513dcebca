"""Runs and checkpoints as plain values for ``--json``, and as cells and lines for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.color import Style
from django.utils import timezone

from durable.core.failure import Failure
from durable.core.showing import one_line, queue_wait, show_json, show_queue_wait, show_span
from durable.core.states import TERMINAL, CheckpointStatus, RunStatus
from durable.management.tables import Cell, Column
from durable.models import StepCheckpoint, WorkflowRun

PAYLOAD_CHARACTERS = 400
STATUS_STYLES = {
    RunStatus.COMPLETED.value: "SUCCESS",
    RunStatus.FAILED.value: "ERROR",
    RunStatus.DEAD.value: "ERROR",
    RunStatus.CANCELLED.value: "WARNING",
    RunStatus.CANCELLING.value: "WARNING",
    RunStatus.BLOCKED.value: "WARNING",
    RunStatus.RUNNING.value: "MIGRATE_HEADING",
}
RUN_COLUMNS = (
    Column(title="run"),
    Column(title="workflow"),
    Column(title="status"),
    Column(title="created"),
    Column(title="took", right=True),
    Column(title="tags"),
    Column(title="waits for, or error"),
)
CHECKPOINT_COLUMNS = (
    Column(title="#", right=True),
    Column(title="kind"),
    Column(title="name"),
    Column(title="status"),
    Column(title="tries", right=True),
    Column(title="queued", right=True),
    Column(title="took", right=True),
    Column(title="until"),
    Column(title="error"),
)


def status_cell(status: str, style: Style) -> Cell:
    """Return a status in its colour."""
    name = STATUS_STYLES.get(status)
    return Cell(status) if name is None else Cell(status, getattr(style, name))


def run_row(run: WorkflowRun, style: Style, now: datetime) -> list[Cell | str]:
    """Return the cells of a run in a list."""
    return [
        run.run_id,
        f"{run.workflow}@{run.version}",
        status_cell(run.status, style),
        show_when(run.created_at, now),
        run_span(run, now),
        ", ".join(_tags(run)),
        error_line(run.error) or run.waiting_on or run.note,
    ]


def run_details(run: WorkflowRun, style: Style, now: datetime, redact: Sequence[str]) -> list[tuple[str, Cell | str]]:
    """Return what there is to say about one run."""
    wakes = run.wake_at if run.status == RunStatus.SUSPENDED.value else None
    return [
        ("run", run.run_id),
        ("workflow", f"{run.workflow}@{run.version}"),
        ("status", status_cell(run.status, style)),
        ("note", run.note),
        ("waiting on", run.waiting_on),
        ("looks again", show_instant(wakes)),
        ("namespace", run.namespace if run.namespace != "default" else ""),
        ("priority", str(run.priority) if run.priority else ""),
        ("tags", ", ".join(_tags(run))),
        ("created", show_instant(run.created_at)),
        ("started", show_instant(run.started_at)),
        ("finished", show_instant(run.finished_at)),
        ("took", run_span(run, now)),
        ("deadline", show_instant(run.deadline_at)),
        ("recoveries", str(run.recovery_attempts) if run.recovery_attempts else ""),
        ("held by", held_by(run)),
        ("input", payload_line(run.input, redact)),
        ("output", payload_line(run.output, redact)),
        ("error", Cell(error_line(run.error), style.ERROR)),
    ]


def checkpoint_row(checkpoint: StepCheckpoint, style: Style, now: datetime) -> list[Cell | str]:
    """Return the cells of a checkpoint in a timeline."""
    open_now = now if checkpoint.status in {CheckpointStatus.PENDING, CheckpointStatus.RUNNING} else None
    return [
        str(checkpoint.seq),
        checkpoint.kind,
        checkpoint.name,
        status_cell(checkpoint.status, style),
        str(checkpoint.attempts or ""),
        show_queue_wait(checkpoint.enqueued_at, checkpoint.started_at, open_now),
        show_span(checkpoint.started_at, checkpoint.finished_at, open_now),
        "" if open_now is None or checkpoint.wake_at is None else show_when(checkpoint.wake_at, now),
        error_line(checkpoint.error),
    ]


def run_span(run: WorkflowRun, now: datetime) -> str:
    """Return how long a run took, or how long it has been going on."""
    return show_span(run.started_at, run.finished_at, None if RunStatus(run.status) in TERMINAL else now)


def held_by(run: WorkflowRun) -> str:
    """Return which instance executes a run, and until when it may."""
    if run.lease_owner is None or run.lease_expires_at is None or run.status != RunStatus.RUNNING.value:
        return ""
    return f"{run.lease_owner[:8]} until {show_instant(run.lease_expires_at)}"


def show_instant(instant: datetime | None) -> str:
    """Return an instant in the project's time zone, to the second."""
    return "" if instant is None else timezone.localtime(instant).strftime("%Y-%m-%d %H:%M:%S")


def show_when(instant: datetime, now: datetime) -> str:
    """Return an instant as shortly as a list needs it: of today, the time alone."""
    local = timezone.localtime(instant)
    return local.strftime("%H:%M:%S" if local.date() == timezone.localtime(now).date() else "%Y-%m-%d %H:%M")


def error_line(text: str | None) -> str:
    """Return a stored error on one line."""
    if text is None:
        return ""
    try:
        failure = Failure.from_json(text)
    except (ValueError, RecursionError):
        return one_line(text, PAYLOAD_CHARACTERS)
    return one_line(f"{failure.kind}: {failure.message}", PAYLOAD_CHARACTERS)


def payload_line(text: str | None, redact: Sequence[str]) -> str:
    """Return a stored payload on one line, with secrets masked."""
    return "" if text is None or text == "null" else one_line(show_json(text, redact), PAYLOAD_CHARACTERS)


def _tags(run: WorkflowRun) -> list[str]:
    tags = as_json(run.tags)
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def as_json(text: str | None) -> Any:
    """Return the value of stored JSON; text that is none stays text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def run_facts(run: WorkflowRun) -> dict[str, Any]:
    """Return a run for programs, without its payloads."""
    return {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "version": run.version,
        "status": run.status,
        "note": run.note,
        "waiting_on": run.waiting_on,
        "namespace": run.namespace,
        "priority": run.priority,
        "tags": as_json(run.tags),
        "created_at": _iso(run.created_at),
        "started_at": _iso(run.started_at),
        "finished_at": _iso(run.finished_at),
        "wake_at": _iso(run.wake_at),
        "recovery_attempts": run.recovery_attempts,
        "error": as_json(run.error),
    }


def checkpoint_facts(checkpoint: StepCheckpoint) -> dict[str, Any]:
    """Return a checkpoint for programs."""
    return {
        "seq": checkpoint.seq,
        "kind": checkpoint.kind,
        "name": checkpoint.name,
        "status": checkpoint.status,
        "attempts": checkpoint.attempts,
        "worker_group": checkpoint.worker_group,
        "parallel_group": checkpoint.parallel_group,
        "enqueued_at": _iso(checkpoint.enqueued_at),
        "started_at": _iso(checkpoint.started_at),
        "finished_at": _iso(checkpoint.finished_at),
        "wake_at": _iso(checkpoint.wake_at),
        "queue_wait_s": _seconds(queue_wait(checkpoint.enqueued_at, checkpoint.started_at)),
        "duration_s": _seconds(_duration(checkpoint)),
        "input": as_json(checkpoint.input),
        "output": as_json(checkpoint.output),
        "error": as_json(checkpoint.error),
    }


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _duration(checkpoint: StepCheckpoint) -> timedelta | None:
    begin, end = checkpoint.started_at, checkpoint.finished_at
    # the begin is reckoned by the worker, never behind the database's clock, which says the end
    return None if begin is None or end is None else max(end - begin, timedelta(0))


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
