"""Users with permissions, and rows as the engine would write them."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from durable.models import StepCheckpoint, WorkflowRun

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SENT: dict[str, Any] = {"created_at": NOON}
QUEUED: dict[str, Any] = {"created_at": NOON, "visible_at": NOON}
LIST = "/admin/durable/workflowrun/"
VIEW = ("view_workflowrun", "view_bufferedsignal", "view_signalwaiter", "view_transportmessage")
PERMISSIONS: dict[str, Iterable[str]] = {
    "staff": (),
    "viewer": VIEW,
    "auditor": (*VIEW, "view_payload"),
    "retrier": (*VIEW, "retry_run"),
    "blind retrier": ("retry_run",),
}
numbers = count(1)


@pytest.fixture
def client_of(db: None) -> Callable[[str], Client]:
    """Return a function that logs a kind of user in: a key of ``PERMISSIONS``, ``superuser`` or ``anonymous``."""

    def log_in(kind: str) -> Client:
        client = Client()
        if kind == "superuser":
            client.force_login(User.objects.create_superuser("superuser"))
        elif kind != "anonymous":
            user = User.objects.create_user(kind, is_staff=True)
            user.user_permissions.set(Permission.objects.filter(codename__in=PERMISSIONS[kind]))
            client.force_login(user)
        return client

    return log_in


def page_of(run: WorkflowRun) -> str:
    return f"{LIST}{run.pk}/change/"


def retry_of(run: WorkflowRun) -> str:
    return f"{LIST}{run.pk}/retry/"


def build_run(**facts: Any) -> WorkflowRun:
    defaults = {
        "run_id": f"run-{next(numbers):06}",
        "workflow": "tests_app.one_local_step",
        "version": "1",
        "status": "completed",
        "input": "1",
        "input_shape": "single",
        "created_at": NOON,
        "updated_at": NOON,
        "started_at": NOON,
        "finished_at": NOON + timedelta(seconds=5),
    }
    return WorkflowRun(**{**defaults, **facts})


def make_run(**facts: Any) -> WorkflowRun:
    run = build_run(**facts)
    run.save(force_insert=True)
    return run


def add_checkpoints(run: WorkflowRun, number: int = 1, **facts: Any) -> None:
    defaults: dict[str, Any] = {
        "name": "add",
        "kind": "local",
        "status": "completed",
        "attempts": 1,
        "started_at": NOON,
        "finished_at": NOON + timedelta(milliseconds=12),
    }
    rows = (StepCheckpoint(run=run, seq=seq, **{**defaults, **facts}) for seq in range(number))
    StepCheckpoint.objects.bulk_create(rows)
