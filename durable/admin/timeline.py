"""The checkpoints of a run as rows for a page; no more is read of them, and of their payloads, than a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, F, TextField, When
from django.db.models.functions import Length
from django.utils.translation import gettext

from durable.admin import display
from durable.core.showing import show_queue_wait, show_span
from durable.core.states import CheckpointStatus
from durable.models import StepCheckpoint

PAGE_ROWS = 100
PAYLOADS = ("input", "output", "error")
FACTS = ("seq", "kind", "name", "status", "attempts", "enqueued_at", "started_at", "finished_at", "wake_at")
OPEN = frozenset({CheckpointStatus.PENDING.value, CheckpointStatus.RUNNING.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One checkpoint, ready to be shown."""

    seq: int
    kind: str
    name: str
    badge: str
    attempts: int
    queued: str
    took: str
    until: str
    payloads: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some checkpoints, and where the next ones begin."""

    rows: tuple[Row, ...]
    first_seq: int
    next_seq: int | None
    may_view_payload: bool


def read_page(
    run_pk: int, *, alias: str, first_seq: int, now: datetime, redact: Sequence[str], may_view_payload: bool
) -> Page:
    """Read the checkpoints of a run from a position on, in one query."""
    found = StepCheckpoint.objects.using(alias).filter(run_id=run_pk, seq__gte=first_seq).order_by("seq")
    names = [*FACTS]
    if may_view_payload:
        found = found.annotate(**_payload_columns())
        names += [f"{name}_{part}" for name in PAYLOADS for part in ("text", "length")]
    values = list(found.values(*names)[: PAGE_ROWS + 1])
    rows = tuple(_row(each, now, redact, may_view_payload=may_view_payload) for each in values[:PAGE_ROWS])
    following = values[PAGE_ROWS]["seq"] if len(values) > PAGE_ROWS else None
    return Page(rows=rows, first_seq=first_seq, next_seq=following, may_view_payload=may_view_payload)


def _payload_columns() -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in PAYLOADS:
        short = When(**{f"{name}_length__lte": display.LONGEST_SHOWN_CHARACTERS}, then=F(name))
        columns[f"{name}_length"] = Length(name)
        columns[f"{name}_text"] = Case(short, output_field=TextField(null=True))
    return columns


def _row(values: dict[str, Any], now: datetime, redact: Sequence[str], *, may_view_payload: bool) -> Row:
    is_open = values["status"] in OPEN
    open_now = now if is_open else None
    return Row(
        seq=values["seq"],
        kind=values["kind"],
        name=values["name"],
        badge=display.status_badge(values["status"]),
        attempts=values["attempts"],
        queued=show_queue_wait(values["enqueued_at"], values["started_at"], open_now),
        took=show_span(values["started_at"], values["finished_at"], open_now),
        until=display.instant(values["wake_at"]) if is_open and values["wake_at"] else "",
        payloads=_payloads(values, redact) if may_view_payload else (),
    )


def _payloads(values: dict[str, Any], redact: Sequence[str]) -> tuple[tuple[str, str], ...]:
    labels = {"input": gettext("input"), "output": gettext("output"), "error": gettext("error")}
    return tuple(
        (labels[name], show(values[f"{name}_text"], redact, values[f"{name}_length"]))
        for name, show in (("input", display.payload), ("output", display.payload), ("error", display.error))
        if values[f"{name}_length"] is not None
    )
