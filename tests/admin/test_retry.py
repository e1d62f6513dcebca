"""The retry from the admin: truthful, logged, and through the engine's own rules."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages

from durable.admin import actions
from durable.models import WorkflowRun
from tests.admin.conftest import LIST, build_run, make_run, page_of, retry_of

pytestmark = pytest.mark.django_db


def told(response) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def retry_all(client, *runs, across: bool = False):
    chosen = [run.pk for run in runs]
    return client.post(
        LIST,
        {"action": "retry_selected", "_selected_action": chosen, "index": 0, "select_across": int(across)},
    )


def test_a_retry_is_told_and_logged_with_the_users_name(client_of):
    run = make_run(status="failed", run_id="order:1")

    response = client_of("retrier").post(retry_of(run))

    (entry,) = LogEntry.objects.all()
    assert response["Location"] == page_of(run)
    assert told(response) == ["1 run was put back in the queue."]
    assert (entry.user.username, entry.object_id, entry.object_repr) == ("retrier", str(run.pk), "order:1")
    assert entry.get_change_message() == "Retried."


def test_what_does_not_apply_is_skipped_and_said(client_of):
    runs = [
        make_run(status=status, run_id=status) for status in ("failed", "dead", "cancelled", "completed", "running")
    ]

    response = retry_all(client_of("retrier"), *runs)

    assert told(response) == [
        "3 runs were put back in the queue.",
        "2 runs were skipped: “completed”: it is completed; “running”: it is running.",
    ]
    assert set(WorkflowRun.objects.values_list("run_id", "status")) == {
        ("failed", "pending"),
        ("dead", "pending"),
        ("cancelled", "pending"),
        ("completed", "completed"),
        ("running", "running"),
    }
    assert {entry.object_repr for entry in LogEntry.objects.all()} == {"failed", "dead", "cancelled"}


def test_a_run_that_someone_else_retried_is_skipped(client_of):
    run = make_run(status="failed")
    client = client_of("retrier")
    client.get(page_of(run))
    WorkflowRun.objects.update(status="pending")

    response = client.post(retry_of(run))

    assert told(response) == [f"1 run was skipped: “{run.run_id}”: it is pending."]
    assert not LogEntry.objects.exists()


def test_many_reasons_are_cut(client_of):
    runs = [make_run(run_id=f"r{number}") for number in range(8)]

    (message,) = told(retry_all(client_of("retrier"), *runs))

    assert message.startswith("8 runs were skipped: “r0”: it is completed; ")
    assert message.endswith("; and 3 more.")


def test_everything_that_the_filter_matches(client_of):
    failed = [make_run(status="failed") for _ in range(3)]
    make_run(status="dead")
    client = client_of("retrier")

    response = client.post(
        f"{LIST}?status__exact=failed",
        {"action": "retry_selected", "_selected_action": [failed[0].pk], "index": 0, "select_across": 1},
    )

    assert told(response) == ["3 runs were put back in the queue."]
    assert WorkflowRun.objects.filter(status="dead").count() == 1


def test_at_most_a_thousand_at_once(client_of):
    WorkflowRun.objects.bulk_create(build_run() for _ in range(actions.MOST_AT_ONCE + 1))

    messages = told(retry_all(client_of("retrier"), WorkflowRun.objects.first(), across=True))

    assert messages[-1] == "Only the first 1000 were looked at; run the action again for the others."
