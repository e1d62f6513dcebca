import pytest
from django.core import checks as django_checks
from django.test import override_settings

from durable.authoring.context import Context
from durable.authoring.decorators import step, workflow
from durable.authoring.registry import override_registry
from durable.checks import TAG, check_autocommit, check_declarations, check_settings, check_sqlite

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "x"}


@pytest.fixture(autouse=True)
def registry():
    with override_registry() as emptied:
        yield emptied


@pytest.fixture
def store(settings, monkeypatch):
    """Return a function that makes these the settings of the store's database, which is never connected to."""

    def describe(database):
        monkeypatch.setitem(settings.DATABASES, "elsewhere", database)
        settings.DURABLE = {"DATABASE": "elsewhere"}

    return describe


def found(check):
    return [(each.id, each.msg, each.hint) for each in check(None)]


def test_without_a_setting_all_is_well(settings):
    del settings.DURABLE

    assert found(check_settings) == []


def test_a_wrong_setting_is_an_error_with_the_problem_and_the_fix():
    with override_settings(DURABLE={"LEESE": 1, "CONCURRENCY": 0}):
        errors = check_settings(None)

    assert [(each.id, each.level) for each in errors] == [("durable.E001", django_checks.ERROR)] * 2
    assert "'LEESE'" in errors[0].msg
    assert "'LEASE'" in (errors[0].hint or "")
    assert "CONCURRENCY" in errors[1].msg
    assert "whole number from 1" in (errors[1].hint or "")


def test_a_database_that_the_project_has_not_is_an_error():
    with override_settings(DURABLE={"DATABASE": "defualt"}):
        ((code, msg, hint),) = found(check_settings)

    assert (code, hint) == ("durable.E001", "Did you mean 'default'?")
    assert "'defualt'" in msg


@pytest.mark.parametrize("raw", [None, [], {"DATABASE": 7}])
def test_no_check_stumbles_over_a_broken_setting(raw):
    with override_settings(DURABLE=raw):
        assert {code for code, _, _ in found(check_settings)} == {"durable.E001"}
        assert found(check_sqlite) == []
        assert found(check_autocommit) == []


def test_a_store_without_autocommit_is_an_error(store):
    store({**SQLITE, "AUTOCOMMIT": False})
    (error,) = check_autocommit(None)

    assert (error.id, error.level) == ("durable.E003", django_checks.ERROR)
    assert "'elsewhere'" in error.msg
    assert "transaction.atomic()" in (error.hint or "")


@pytest.mark.parametrize("database", [SQLITE, {**SQLITE, "AUTOCOMMIT": True}])
def test_a_store_with_autocommit_is_silent(store, settings, monkeypatch, database):
    monkeypatch.setitem(settings.DATABASES, "unused", {**SQLITE, "AUTOCOMMIT": False})
    store(database)

    assert found(check_autocommit) == []


def test_annotations_that_cannot_be_rebuilt_are_errors_that_name_the_parameter():
    @step(name="shop.charge")
    def charge(card: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    @workflow(name="shop.checkout")
    def checkout(ctx: Context, data: bytes) -> None: ...

    first, second = found(check_declarations)

    assert first[0] == second[0] == "durable.E002"
    assert "step shop.charge: parameter 'card'" in first[1]
    assert "workflow shop.checkout: parameter 'data'" in second[1]
    assert "TYPE_CHECKING" in first[2]


def test_sound_declarations_are_silent():
    @step
    def charge(order_id: int) -> dict[str, int]:
        return {}

    assert found(check_declarations) == []


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, "transaction_mode 'IMMEDIATE' and journal_mode WAL"),
        ({"transaction_mode": "IMMEDIATE"}, "lacks journal_mode WAL"),
        ({"init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous=NORMAL"}, "lacks transaction_mode"),
    ],
)
def test_sqlite_without_its_options_is_only_mentioned(store, options, missing):
    store({**SQLITE, "OPTIONS": options})
    (info,) = check_sqlite(None)

    assert (info.id, info.level) == ("durable.I001", django_checks.INFO)
    assert missing in info.msg


@pytest.mark.parametrize(
    "database",
    [
        {**SQLITE, "OPTIONS": {"transaction_mode": "immediate", "init_command": "PRAGMA journal_mode=wal"}},
        {"ENGINE": "django.db.backends.postgresql", "NAME": "x"},
    ],
)
def test_other_databases_and_a_tuned_sqlite_are_silent(store, database):
    store(database)

    assert found(check_sqlite) == []


@pytest.mark.django_db(databases=[])
def test_the_checks_ask_no_database_and_answer_to_their_tag():
    assert [each for each in django_checks.run_checks(tags=[TAG]) if each.level >= django_checks.ERROR] == []
