"""``durable_start`` and ``durable_signal``."""

import io
import json

import pytest

from durable import api
from durable.models import BufferedSignal, WorkflowRun

pytestmark = pytest.mark.django_db(transaction=True)
ADD_ONE = "tests_app.one_local_step"


def test_a_run_is_started_and_its_id_printed(ask):
    answer = ask("durable_start", ADD_ONE, "--input", "4")

    run = WorkflowRun.objects.get()
    assert answer.code == 0
    assert answer.out == f"Started run {run.run_id} of {ADD_ONE}.\n"
    assert (run.workflow, run.input, run.status) == (ADD_ONE, "4", "pending")


def test_every_option_reaches_the_run(ask):
    options = (
        "--id",
        "mine",
        "--version",
        "1",
        "--namespace",
        "acme",
        "--tag",
        "vip",
        "--tag",
        "ünï",
        "--priority",
        "3",
    )

    started = ask("durable_start", ADD_ONE, "--input", "4", *options, "--json").json

    run = WorkflowRun.objects.get()
    assert started["run_id"] == run.run_id == "mine"
    assert started["tags"] == json.loads(run.tags) == ["vip", "ünï"]
    assert (run.namespace, run.priority, run.version) == ("acme", 3, "1")


def test_starting_an_id_again_is_harmless_and_said(ask):
    ask("durable_start", ADD_ONE, "--input", "4", "--id", "mine")

    answer = ask("durable_start", ADD_ONE, "--input", "4", "--id", "mine")

    assert answer.code == 0
    assert answer.out == f"There is a run mine of {ADD_ONE}.\n"
    assert WorkflowRun.objects.count() == 1


def test_silence_is_silence(ask):
    assert ask("durable_start", ADD_ONE, "--input", "4", "--verbosity", "0").out == ""


def test_input_comes_from_a_file(ask, tmp_path):
    file = tmp_path / "input.json"
    file.write_text('["ä"]', encoding="utf-8")

    ask("durable_start", "tests_app.gathering", "--input", f"@{file}")

    assert not WorkflowRun.objects.exists()  # a list of texts is refused: the annotation says numbers
    file.write_text("[1, 2]", encoding="utf-8")
    assert ask("durable_start", "tests_app.gathering", "--input", f"@{file}").code == 0
    assert WorkflowRun.objects.get().input == "[1,2]"


def test_input_comes_from_standard_input(ask, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("17\n"))

    assert ask("durable_start", ADD_ONE, "--input", "-").code == 0
    assert WorkflowRun.objects.get().input == "17"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("tests_app.one_local_stp",), "Did you mean 'tests_app.one_local_step'?"),
        ((ADD_ONE, "--input", "1", "--version", "9"), "has no version '9' in this process (registered: '1')"),
        ((ADD_ONE, "--input", "x"), "--input is no JSON: Expecting value: line 1 column 1 (char 0). Text needs quotes"),
        ((ADD_ONE, "--input", '"x"'), "parameter 'number': at $: Expected `int`, got `str`"),
        ((ADD_ONE, "--input", "@/no/such/file"), "--input: /no/such/file cannot be read: No such file or directory."),
        (("tests_app.doomed", "--input", "3"), "tests_app.doomed takes its input as a mapping by parameter name"),
        ((ADD_ONE, "--input", "1", "--wait", "soon"), "--wait: 'soon' is no duration"),
        ((ADD_ONE, "--input", "1", "--id", "a\nb"), "holds a control character at position 1"),
        ((ADD_ONE, "--input", "[" * 100_000), "--input"),
    ],
)
def test_what_cannot_be_started_is_one_line_and_nothing_is_written(ask, args, message):
    answer = ask("durable_start", *args)

    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not WorkflowRun.objects.exists()


def test_an_id_of_another_workflow_is_refused(ask):
    ask("durable_start", ADD_ONE, "--input", "4", "--id", "mine")

    answer = ask("durable_start", "tests_app.sleepy", "--input", "4", "--id", "mine")

    assert answer.code == 2
    assert "belongs to workflow 'tests_app.one_local_step'" in answer.err


def test_waiting_prints_the_result(ask, spawn_worker):
    spawn_worker()

    assert ask("durable_start", ADD_ONE, "--input", "41", "--wait", "30s", "--verbosity", "0").out == "42\n"
    started = ask("durable_start", ADD_ONE, "--input", "41", "--wait", "30s", "--json").json
    assert (started["status"], started["output"]) == ("completed", 42)


def test_waiting_for_a_run_that_fails_ends_with_1(ask, spawn_worker):
    spawn_worker()

    answer = ask("durable_start", "tests_app.doomed", "--wait", "30s")

    assert answer.code == 1
    assert answer.err == "It failed: StepFailed: Step 'tests_app.fails_for_good' failed after 1 attempt: no way\n"


def test_a_run_that_goes_on_ends_the_waiting_with_3(ask):
    answer = ask("durable_start", ADD_ONE, "--input", "41", "--wait", "10ms")

    assert answer.code == 3
    assert "It goes on; ask again later." in answer.err


def test_a_signal_wakes_who_waits(ask, work_off):
    run = api.start("tests_app.patient", "go")
    work_off()

    answer = ask("durable_signal", "go", "--payload", '{"ok": [1, "ü"]}')
    work_off()

    assert answer.code == 0
    assert answer.out == "Sent go: 1 run waited for it.\n"
    assert run.result(0) == ["go", {"ok": [1, "ü"]}]


def test_a_signal_for_nobody_is_kept(ask):
    answer = ask("durable_signal", "go")

    assert answer.out == "Sent go: no run waits for it yet, so it is kept.\n"
    assert BufferedSignal.objects.get().payload == "null"
    assert ask("durable_signal", "go", "--json").json == {"token": "go", "sent": True, "waiting": 0}


@pytest.mark.parametrize(
    ("args", "message"),
    [(("",), "The token '' is empty"), (("go", "--payload", "{"), "--payload is no JSON")],
)
def test_a_signal_that_cannot_be_sent_is_refused(ask, args, message):
    answer = ask("durable_signal", *args)

    assert answer.code == 2
    assert message in answer.err
    assert not BufferedSignal.objects.exists()
