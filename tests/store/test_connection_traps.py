"""What a thread's connections can do to work that has nothing to do with it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, connections

from durable.authoring.current import StepContext
from durable.core.clock import SystemClock
from durable.engine.usercode import run_step
from durable.store.django_session import open_session
from durable.store.errors import TransientTrouble
from durable.store.seam import Statement

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

NOBODY = 987_654


def test_a_deferred_constraint_that_fails_at_commit_is_no_lost_answer():
    with pytest.raises(IntegrityError), open_session("default").atomic():
        LogEntry.objects.create(user_id=NOBODY, action_flag=1, object_repr="x")

    assert not LogEntry.objects.exists()


def test_a_step_does_not_fail_because_a_database_that_it_did_not_use_is_down(monkeypatch):
    def refuse() -> None:
        message = "down"
        raise OperationalError(message)

    unused = connections["other"]
    unused.close()
    monkeypatch.setattr(unused, "connect", refuse)
    context = StepContext(run_id="run", step_id="run:0", attempt=1, clock=SystemClock())

    assert run_step(open_session("default"), context, lambda: 1) == 1


@pytest.mark.postgres
def test_an_async_step_gets_a_connection_that_works_after_one_that_broke():
    def close_underneath() -> None:
        connection.connection.close()

    async def break_connection() -> None:
        await Group.objects.acount()
        await sync_to_async(close_underneath)()

    async def count_groups() -> int:
        return await Group.objects.acount()

    def execute() -> list[int | None]:
        session = open_session("default")
        context = StepContext(run_id="run", step_id="run:0", attempt=1, clock=SystemClock())
        try:
            return [run_step(session, context, step) for step in (break_connection, count_groups)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(execute).result() == [None, 0]


@pytest.fixture
def altered_table() -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE altered (text varchar(10))")
    yield "altered"
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE altered")


@pytest.mark.postgres
def test_a_prepared_statement_survives_a_migration(altered_table):
    session = open_session("default")
    read = Statement(f"SELECT text FROM {altered_table}")
    session.execute(read, {})
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {altered_table} ALTER text TYPE varchar(20)")

    with pytest.raises(TransientTrouble):
        session.execute(read, {})

    assert list(session.execute(read, {})) == []
