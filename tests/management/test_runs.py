"""``durable_runs``."""

import json
from datetime import timedelta

import pytest

from durable import api
from durable.models import StepCheckpoint, WorkflowRun

pytestmark = pytest.mark.django_db(transaction=True)


def start(count: int = 1, workflow: str = "tests_app.one_local_step") -> None:
    for number in range(count):
        api.start(workflow, number, id=f"{workflow.partition('.')[2]}-{number}")


def test_runs_are_listed_newest_first(ask):
    start(3)

    answer = ask("durable_runs")

    assert answer.code == 0
    assert answer.lines[0].split() == ["RUN", "WORKFLOW", "STATUS", "CREATED"]
    assert [line.split()[:3] for line in answer.lines[1:]] == [
        [f"one_local_step-{number}", "tests_app.one_local_step@1", "pending"] for number in (2, 1, 0)
    ]


def test_columns_stand_below_each_other_whatever_the_script(ask):
    api.start("tests_app.one_local_step", 1, id="注文-1")
    api.start("tests_app.one_local_step", 1, id="order-1234")

    lines = ask("durable_runs").lines

    wide = lines[2]
    assert lines[1].index("tests_app") == wide.index("tests_app") + 2  # two characters take two columns each


def test_a_list_filters(ask, failed_run):
    start(1)

    assert [run["run_id"] for run in ask("durable_runs", "--status", "failed", "--json").json] == [failed_run]
    assert [run["run_id"] for run in ask("durable_runs", "--workflow", "tests_app.one_local_step", "--json").json] == [
        "one_local_step-0"
    ]
    assert ask("durable_runs", "--namespace", "elsewhere").out == "No runs match.\n"


def test_a_list_has_a_limit_and_says_when_there_is_more(ask):
    start(3)

    answer = ask("durable_runs", "--limit", "2")

    assert len(answer.lines) == 4
    assert answer.lines[-1] == "There are more; these are the newest 2. See --limit."
    assert len(ask("durable_runs", "--limit", "2", "--json").json) == 2


def test_silence_leaves_what_was_asked_for(ask):
    assert ask("durable_runs", "--verbosity", "0").out == ""
    assert ask("durable_runs").out == "No runs.\n"
    assert ask("durable_runs", "--json", "--verbosity", "0").json == []
    start(1)
    assert len(ask("durable_runs", "--verbosity", "0").lines) == 2


def test_one_run_is_shown_with_its_timeline(ask, failed_run):
    answer = ask("durable_runs", failed_run)

    facts = dict(line.split(maxsplit=1) for line in answer.lines[: answer.lines.index("")])
    table = answer.lines[answer.lines.index("") + 1 :]
    assert facts["status"] == "failed"
    assert facts["workflow"] == "tests_app.doomed@1"
    assert facts["error"] == "StepFailed: Step 'tests_app.fails_for_good' failed after 1 attempt: no way"
    assert table[0].split() == ["#", "KIND", "NAME", "STATUS", "TRIES", "QUEUED", "TOOK", "ERROR"]
    assert table[1].split()[:5] == ["0", "remote", "tests_app.fails_for_good", "failed", "1"]
    assert table[1].endswith("FatalError: no way")


def test_one_run_as_json_has_everything(ask, failed_run):
    run = ask("durable_runs", failed_run, "--json").json

    (checkpoint,) = run["checkpoints"]
    assert run["status"] == "failed"
    assert run["error"]["code"] == "step_failed" or run["error"]["code"] == "for_good"
    assert checkpoint["seq"] == 0
    assert checkpoint["input"] == "no way"
    assert checkpoint["error"]["code"] == "for_good"
    assert checkpoint["queue_wait_s"] >= 0
    assert checkpoint["duration_s"] >= 0


def test_a_step_whose_begin_was_reckoned_behind_its_end_took_no_time(ask, failed_run):
    begun = StepCheckpoint.objects.get().finished_at + timedelta(milliseconds=1)
    StepCheckpoint.objects.update(started_at=begun)

    assert ask("durable_runs", failed_run, "--json").json["checkpoints"][0]["duration_s"] == 0


def test_what_waits_says_for_what_and_until_when(ask, work_off):
    api.start("tests_app.sleepy", 3600, id="sleeper")
    work_off()

    answer = ask("durable_runs", "sleeper")

    assert "waiting on   timer" in answer.out
    assert "UNTIL" in answer.out
    assert answer.lines[-1].split()[:4] == ["0", "sleep", "sleep", "pending"]


def test_a_run_without_checkpoints_says_so(ask):
    start(1)

    assert ask("durable_runs", "one_local_step-0").lines[-1] == "It has no checkpoints yet."


def test_secrets_are_masked_for_people_and_kept_for_programs(ask):
    start(1)
    text = json.dumps({"api_key": "sk-123", "deep": [{"Password2": "hunter2"}], "ok": 1})
    WorkflowRun.objects.update(input=text)

    shown = ask("durable_runs", "one_local_step-0").out

    assert "sk-123" not in shown
    assert "hunter2" not in shown
    assert '"ok": 1' in shown
    assert ask("durable_runs", "one_local_step-0", "--json").json["input"] == json.loads(text)


def test_stored_text_cannot_steer_the_terminal(ask):
    start(1)
    WorkflowRun.objects.update(
        status="failed", error=json.dumps({"kind": "Error", "message": "\x1b[2J\x1b]0;owned\x07 a\nb \u202egnp"})
    )

    for answer in (ask("durable_runs"), ask("durable_runs", "one_local_step-0")):
        assert not any(character in answer.out for character in "\x1b\x07\u202e")
        assert "a b" in answer.out


def test_an_unknown_run_is_one_line_and_code_2(ask):
    answer = ask("durable_runs", "nix")

    assert answer.code == 2
    assert answer.err.startswith("CommandError: There is no run 'nix'.")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--limit", "0"), "--limit takes a whole number from 1, not 0."),
        (("nix", "--status", "failed"), "--status filters the list"),
        (("--database", "othr"), "There is no database 'othr' in settings.DATABASES. Did you mean 'other'?"),
    ],
)
def test_nonsense_is_refused(ask, args, message):
    answer = ask("durable_runs", *args)

    assert answer.code == 2
    assert message in answer.err


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_another_database_is_read_when_it_is_named(ask):
    api.start("tests_app.one_local_step", 1, id="there", using="other")

    assert ask("durable_runs", "--json").json == []
    assert [run["run_id"] for run in ask("durable_runs", "--json", "--database", "other").json] == ["there"]
