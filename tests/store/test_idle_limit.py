"""A worker that stands still inside a transaction holds its locks for a limited time."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from durable.store.django_session import open_session

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """Return the connection's options, for the test to change before it connects again."""
    kept = dict(connection.settings_dict["OPTIONS"])
    connection.close()
    yield connection.settings_dict["OPTIONS"]
    connection.close()
    connection.settings_dict["OPTIONS"] = kept
    connection_created.disconnect(dispatch_uid="durable.idle_limit.default")


def idle_limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return str(cursor.fetchone()[0])


def test_a_worker_may_stand_still_for_half_a_minute(options: dict[str, Any]):
    open_session("default").prepare_for_work()

    assert idle_limit() == "30s"


def test_a_limit_of_the_project_stays(options: dict[str, Any]):
    options["options"] = "-c idle_in_transaction_session_timeout=2000"
    open_session("default").prepare_for_work()

    assert idle_limit() == "2s"


def test_a_process_that_is_no_worker_is_left_alone(options: dict[str, Any]):
    open_session("default")

    assert idle_limit() == "0"
