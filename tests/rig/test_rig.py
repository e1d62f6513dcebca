"""The rig does what the other tests rely on."""

from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections

from testproject.database import settings_of, url_of
from tests.rig.patience import StillFalseError, wait_until


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_sqlite_is_a_file_in_wal_mode():
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()

    assert mode == ("wal",)
    assert Path(connection.settings_dict["NAME"]).is_absolute()


@pytest.mark.postgres
@pytest.mark.django_db
def test_postgres_is_postgres():
    assert connection.vendor == "postgresql"


@pytest.mark.django_db(databases=["default", "other"])
def test_two_databases_are_two():
    Group.objects.using("other").create(name="elsewhere")

    assert not Group.objects.using("default").exists()
    assert connections["other"].settings_dict["NAME"] != connection.settings_dict["NAME"]


@pytest.mark.django_db(transaction=True)
def test_a_process_sees_the_rows_of_the_test(spawn_worker):
    Group.objects.create(name="seen from afar")

    process = spawn_worker("auth.group", command="dumpdata")

    assert process.wait() == 0
    assert "seen from afar" in process.output


@pytest.mark.django_db(transaction=True)
def test_a_killed_process_is_gone(spawn_worker):
    process = spawn_worker("--addrport", "127.0.0.1:0", command="testserver")
    process.sigkill()

    assert process.returncode == -9


@pytest.mark.django_db(transaction=True)
def test_a_frozen_process_goes_on(spawn_worker):
    process = spawn_worker("auth.group", command="dumpdata")
    process.sigstop()
    process.sigcont()

    assert process.wait() == 0


def test_waiting_has_a_limit():
    with pytest.raises(StillFalseError, match="the impossible"):
        wait_until(lambda: False, timeout=0.05, what="the impossible")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////tmp/a file.sqlite3",
        "postgresql://user:p%40ss@localhost:5433/name",
        "postgresql:///name?host=/run/pg&port=5432&user=me",
    ],
)
def test_a_database_address_survives_the_way_to_another_process(url):
    settings = settings_of(url)

    assert settings_of(url_of(settings)) == settings
