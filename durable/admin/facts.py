"""What there is to say about one run at the head of its page."""

from __future__ import annotations

from django.utils import timezone
from django.utils.translation import gettext as _

from durable.admin import display
from durable.conf import get_config
from durable.core.showing import show_span
from durable.core.states import TERMINAL, RunStatus
from durable.models import WorkflowRun

Facts = list[tuple[str, str]]


def facts_of(run: WorkflowRun) -> Facts:
    """Return labels and values; what has no value is left out."""
    told = [
        (_("Status"), display.status_badge(run.status)),
        (_("Waiting on"), display.isolated(run.waiting_on)),
        (_("Note"), display.isolated(run.note)),
        (_("Workflow"), display.isolated(f"{run.workflow}@{run.version}")),
        (_("Created"), display.instant(run.created_at)),
        (_("Started"), display.instant(run.started_at)),
        (_("Finished"), display.instant(run.finished_at)),
        (_("Duration"), duration_of(run) or display.NOTHING),
        (_("Looks again"), display.instant(run.wake_at if run.status == RunStatus.SUSPENDED else None)),
        (_("Deadline"), display.instant(run.deadline_at)),
        (_("Tags"), display.tag_list(run.tags)),
        (_("Namespace"), display.isolated(run.namespace)),
        (_("Priority"), str(run.priority)),
        (_("Recoveries"), str(run.recovery_attempts)),
        (_("Held by"), display.isolated(run.lease_owner or "")),
    ]
    return [(label, value) for label, value in told if value != display.NOTHING]


def payloads_of(run: WorkflowRun, *, may_view_payload: bool) -> Facts:
    """Return input, output and error, or what stands in their place."""
    labels = {"error": _("Error"), "output": _("Output"), "input": _("Input")}
    if not may_view_payload:
        return [(label, display.hidden()) for label in labels.values()]
    redact = get_config().redact
    shown = {
        "error": display.error(run.error, redact),
        "output": display.payload(run.output, redact),
        "input": display.payload(run.input, redact),
    }
    return [(labels[name], value) for name, value in shown.items() if value != display.NOTHING]


def duration_of(run: WorkflowRun) -> str:
    """Return how long a run took, or has been going on; nothing before it began."""
    return show_span(run.started_at, run.finished_at, None if run.status in TERMINAL else timezone.now())
