"""``durable_work`` and ``durable_timers``: options, refusals, and the life of their processes."""

import signal
import time
from collections.abc import Callable

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from durable import api
from durable.core.states import TERMINAL
from durable.models import StepCheckpoint, WorkflowRun

pytestmark = pytest.mark.django_db(transaction=True)
READY = "Ready. Ctrl-C"


def test_once_does_what_is_due_and_ends(ask):
    runs = [api.start("tests_app.dispatched", number) for number in range(5)]
    sleeper = api.start("tests_app.sleepy", 3600)

    answer = ask("durable_work", "--once", "--concurrency", "2")

    assert answer.code == 0
    assert answer.lines[0].startswith("durable worker ")
    assert answer.lines[-1] == "Stopped."
    assert sleeper.status == "suspended"
    assert {run.status for run in runs} <= {"completed", "suspended"}  # a retry may be due in an instant


def test_signal_handlers_are_given_back(ask):
    before = signal.getsignal(signal.SIGTERM)

    ask("durable_work", "--once")

    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--concurrency", "0"), "--concurrency takes a whole number from 1, not 0."),
        (("--step-concurrency", "-3"), "--step-concurrency takes a whole number from 1, not -3."),
        (("--queues", " , "), "--queues takes names with commas between them."),
        (("--once", "--reload"), "--reload and --once exclude each other."),
    ],
)
def test_nonsense_is_refused(ask, args, message):
    answer = ask("durable_work", *args)

    assert answer.code == 2
    assert message in answer.err


def test_an_unknown_queue_is_mentioned(ask):
    answer = ask("durable_work", "--once", "--queues", "tests_app.dubble, tests_app.double")

    assert answer.code == 0
    assert (
        "No step of this project goes to the queue 'tests_app.dubble'. Did you mean 'tests_app.double'?" in answer.err
    )
    assert answer.err.count("\n") == 1


def test_only_the_named_queues_are_served(ask):
    api.start("tests_app.gathering", [1])

    ask("durable_work", "--once", "--queues", "tests_app.timed_double")

    assert StepCheckpoint.objects.get().status == "pending"


def test_missing_tables_name_the_command(ask):
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE durable_signal_waiters RENAME TO hidden_away")
    try:
        answers = [ask(command) for command in ("durable_work", "durable_timers", "durable_runs")]
    finally:
        with connection.schema_editor() as editor:
            editor.execute("ALTER TABLE hidden_away RENAME TO durable_signal_waiters")

    for answer in answers:
        assert answer.code == 2
        assert answer.err == (
            "CommandError: Tables are missing: durable_signal_waiters. Run: manage.py migrate durable\n"
        )


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_unapplied_migrations_name_the_command(ask):
    from django.db import connections

    applied = MigrationRecorder.Migration.objects.using("other").filter(app="durable")
    names = list(applied.values_list("name", flat=True))
    applied.delete()
    try:
        answer = ask("durable_work", "--database", "other")
    finally:
        for name in names:
            MigrationRecorder(connections["other"]).record_applied("durable", name)

    assert answer.code == 2
    assert answer.err == (
        "CommandError: Migrations are not applied: 0001_initial. Run: manage.py migrate durable --database other\n"
    )


def test_a_wrong_setting_is_one_line(ask, settings):
    settings.DURABLE = {"LEESE": "1s"}

    answer = ask("durable_work")

    assert answer.code == 2
    assert "'LEASE'" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.postgres
def test_an_unreachable_database_is_named_without_its_password(spawn_worker):
    address = "postgresql://somebody:hush-hush@127.0.0.1:1/nothing"
    process = spawn_worker(env={"DATABASE_URL": address, "DATABASE_URL_TEST_NAME": "nothing"})

    assert process.wait() == 2
    assert "postgresql://somebody@127.0.0.1:1/nothing" in process.output
    assert "refused" in process.output
    assert "hush-hush" not in process.output
    assert process.output.count("\n") == 1


@pytest.mark.sqlite
def test_an_unreachable_file_is_named(spawn_worker):
    process = spawn_worker(env={"DATABASE_URL": "sqlite:////no/such/folder/db.sqlite3"})

    assert process.wait() == 2
    assert "sqlite:/no/such/folder/db.sqlite3: unable to open database file" in process.output
    assert process.output.count("\n") == 1


@pytest.mark.parametrize("ask_to_end", ["terminate", "interrupt"])
def test_a_worker_finishes_what_has_begun(spawn_worker, wait_until, ask_to_end):
    run = api.start("tests_app.slow", 1.0)
    process = spawn_worker()
    wait_until(lambda: StepCheckpoint.objects.filter(status="running").exists(), what="the step to run")

    getattr(process, ask_to_end)()

    assert process.wait() == 0
    assert "Draining: what has begun is finished, nothing new is taken.\nStopped.\n" in process.output
    assert run.status == "completed"


def test_asked_twice_a_worker_ends_at_once(spawn_worker, wait_until):
    run = api.start("tests_app.slow", 50.0)
    process = spawn_worker()
    wait_until(lambda: StepCheckpoint.objects.filter(status="running").exists(), what="the step to run")
    process.terminate()
    process.wait_for_output("Draining")

    began = time.monotonic()
    process.terminate()

    assert process.wait() == 1
    assert time.monotonic() - began < 3
    assert "Stopped at once." in process.output
    assert run.status == "running"


@pytest.mark.parametrize("command", ["durable_work", "durable_timers"])
def test_an_idle_worker_ends_at_once(spawn_worker, command):
    process = spawn_worker(command=command)
    process.wait_for_output(READY)

    process.terminate()

    assert process.wait(10) == 0


def test_a_silent_worker_prints_nothing(spawn_worker, wait_until):
    run = api.start("tests_app.one_local_step", 1)
    process = spawn_worker("--verbosity", "0")
    wait_until(lambda: run.status == "completed")

    process.terminate()

    assert process.wait() == 0
    assert process.output == ""


def test_timers_recover_and_execute_nothing(ask):
    api.start("tests_app.one_local_step", 1, id="orphan")
    api.start("tests_app.one_local_step", 1, id="fresh")
    api.start("tests_app.one_local_step", 1, id="late")
    long_ago = 1_000_000
    WorkflowRun.objects.filter(run_id="orphan").update(
        status="running", lease_owner="gone", lease_epoch=1, lease_expires_at=long_ago, wake_at=None
    )
    WorkflowRun.objects.filter(run_id="late").update(deadline_at=long_ago)

    answer = ask("durable_timers", "--once")

    assert answer.code == 0
    statuses = dict(WorkflowRun.objects.values_list("run_id", "status"))
    assert statuses.pop("late") in TERMINAL
    assert statuses == {"orphan": "pending", "fresh": "pending"}
    assert not StepCheckpoint.objects.exists()


def test_timers_leave_wakes_and_cancels_to_those_that_drive(ask, work_off):
    run = api.start("tests_app.patient", "go")
    work_off()
    api.signal("go", 1)

    ask("durable_timers", "--once")

    assert run.status == "suspended"
    work_off()
    assert run.result(0) == ["go", 1]


@pytest.mark.sqlite  # the database makes no difference
@pytest.mark.timeout(120)
def test_a_reloading_worker_starts_again_when_code_changes(spawn_worker, wait_until, tmp_path):
    settings = tmp_path / "watched_settings.py"
    settings.write_text("from tests.settings import *\n")
    process = spawn_worker("--reload", env={"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": "watched_settings"})
    process.wait_for_output("It starts again when code changes.")

    def write_until(text: str, printed: Callable[[], bool]) -> None:
        # The reloader has no moment from which on it is known to watch; written again, a file changes again.
        def write() -> bool:
            settings.write_text(f"from tests.settings import *\n{text}\n")
            return printed()

        wait_until(write, timeout=40, interval=1.5, what=f"the process to see {text!r}")

    write_until("(", lambda: "The code cannot be loaded. It is tried again when it changes." in process.output)
    write_until("CHANGED = True", lambda: process.output.count("durable worker ") >= 2)

    process.interrupt()
    assert process.wait() == 0
