"""How facts look in HTML. Every text goes through ``format_html`` or a template: nothing a run carries is markup."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime

from django.db.models import TextChoices
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from durable.core.failure import Failure
from durable.core.showing import one_line, show_json
from durable.core.states import CheckpointStatus, RunStatus
from durable.models.runs import STATUS_LABELS

SUMMARY_CHARACTERS = 90
LONGEST_SHOWN_CHARACTERS = 100_000
NOTHING = "-"
RUN_LABELS = dict(STATUS_LABELS)
CHECKPOINT_LABELS = {
    CheckpointStatus.PENDING.value: _("pending"),
    CheckpointStatus.RUNNING.value: _("running"),
    CheckpointStatus.COMPLETED.value: _("completed"),
    CheckpointStatus.FAILED.value: _("failed"),
}


class Tone(TextChoices):
    """What a status means to an operator; the style sheet gives each a colour."""

    GOOD = "good"
    BAD = "bad"
    BUSY = "busy"
    WAITING = "waiting"
    STOPPED = "stopped"


TONES = {
    RunStatus.PENDING.value: Tone.WAITING,
    RunStatus.RUNNING.value: Tone.BUSY,
    RunStatus.SUSPENDED.value: Tone.WAITING,
    RunStatus.BLOCKED.value: Tone.STOPPED,
    RunStatus.CANCELLING.value: Tone.BUSY,
    RunStatus.COMPLETED.value: Tone.GOOD,
    RunStatus.FAILED.value: Tone.BAD,
    RunStatus.CANCELLED.value: Tone.STOPPED,
    RunStatus.DEAD.value: Tone.BAD,
}


def status_badge(status: str) -> str:
    """Return a status as colour and word."""
    label = RUN_LABELS.get(status) or CHECKPOINT_LABELS.get(status) or status
    return format_html(
        '<span class="durable-status durable-{}">{}</span>', TONES.get(status, Tone.WAITING).value, label
    )


def status_with(status: str, remark: str) -> str:
    """Return a status, and below it what there is to say about it."""
    if not remark:
        return status_badge(status)
    return format_html('{}<div class="durable-remark"><bdi>{}</bdi></div>', status_badge(status), remark)


def breakable(text: str) -> str:
    """Return a dotted name that may be broken after its dots and underscores, and only there if that is enough."""
    parts = re.findall(r"[^._@]+[._@]?|[._@]", text)
    return format_html("<bdi>{}</bdi>", format_html_join("", "{}<wbr>", ((part,) for part in parts)))


def isolated(text: str) -> str:
    """Return text whose direction changes nothing around it."""
    return format_html("<bdi>{}</bdi>", text) if text else NOTHING


def tag_list(text: str) -> str:
    """Return stored tags."""
    try:
        tags = json.loads(text)
    except ValueError:
        tags = [text]
    if not isinstance(tags, list) or not tags:
        return NOTHING
    return format_html_join(" ", '<span class="durable-tag"><bdi>{}</bdi></span>', ((str(tag),) for tag in tags))


def run_link(run_pk: int | None, label: str, site: str) -> str:
    """Return a link to a run's page in the admin site of that name."""
    if run_pk is None:
        return NOTHING
    address = reverse("admin:durable_workflowrun_change", args=[run_pk], current_app=site)
    return format_html('<a href="{}"><bdi>{}</bdi></a>', address, label)


def hidden() -> str:
    """Return what stands in the place of a payload that the user may not see."""
    return format_html(
        '<span class="durable-hidden">{}</span>',
        gettext("hidden: needs the permission “Can see inputs, outputs and errors”"),
    )


def payload(text: str | None, redact: Sequence[str], length: int | None = None) -> str:
    """Return a stored payload, pretty-printed with secrets masked; a long one is folded.

    Args:
        text: The stored JSON; ``None`` where there is none, or where it is too long.
        redact: Parts of keys whose values are masked.
        length: Its length in characters, where the text was not read because it is too long.
    """
    if text is None:
        return NOTHING if length is None else too_long(length)
    if len(text) > LONGEST_SHOWN_CHARACTERS:
        return too_long(len(text))
    return folded(show_json(text, redact), show_json(text, redact, indent=2))


def too_long(length: int) -> str:
    """Return a remark in the place of a payload that would be too much for a page."""
    return gettext("%(length)s characters, too long for this page; the command durable_runs prints it with --json") % {
        "length": f"{length:,}"
    }


def error(text: str | None, redact: Sequence[str], length: int | None = None) -> str:
    """Return a stored error: what happened, and the traceback folded."""
    if text is None:
        return NOTHING if length is None else too_long(length)
    try:
        failure = Failure.from_json(text)
    except (ValueError, RecursionError):
        return payload(text, redact)
    code = f" [{failure.code}]" if failure.code else ""
    summary = f"{failure.kind}{code}: {failure.message}"
    whole = summary if failure.traceback is None else f"{summary}\n\n{failure.traceback}"
    return folded(summary, whole)


def folded(summary: str, whole: str) -> str:
    """Return short text as it is, and long text behind its first line."""
    if summary == whole and len(whole) <= SUMMARY_CHARACTERS and "\n" not in whole:
        return format_html('<code class="durable-payload">{}</code>', whole)
    if len(one_line(summary)) <= SUMMARY_CHARACTERS and summary == one_line(whole):
        return format_html('<code class="durable-payload">{}</code>', summary)
    return format_html(
        '<details class="durable-payload"><summary><code>{}</code></summary><pre>{}</pre></details>',
        one_line(summary, SUMMARY_CHARACTERS),
        whole,
    )


def instant(value: datetime | None) -> str:
    """Return an instant in the current time zone, to the second, as logs have it."""
    if value is None:
        return NOTHING
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}"><span>{}</span> <span>{}</span></time>',
        local.isoformat(),
        local.strftime("%Y-%m-%d"),
        local.strftime("%H:%M:%S"),
    )
