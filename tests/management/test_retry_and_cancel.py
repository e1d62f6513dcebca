"""``durable_retry`` and ``durable_cancel``."""

import pytest

from durable import api

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_failed_run_is_retried(ask, failed_run):
    answer = ask("durable_retry", failed_run)

    assert answer.code == 0
    assert answer.out == "Retried doomed\n"
    assert api.get_run(failed_run).status == "pending"


def test_what_cannot_be_retried_is_said_and_stops_no_other(ask, failed_run):
    api.start("tests_app.one_local_step", 1, id="open")

    answer = ask("durable_retry", "open", failed_run, "nix", failed_run)

    assert answer.code == 1
    assert answer.out == "Retried doomed\n1 run retried, 2 skipped.\n"
    assert "Cannot retry run 'open': it is pending." in answer.err
    assert "There is no run 'nix'." in answer.err


def test_a_program_is_told_of_each_run(ask, failed_run):
    answer = ask("durable_retry", failed_run, "nix", "--json")

    done, missing = answer.json
    assert answer.code == 1
    assert done == {"run_id": failed_run, "done": True, "error": None}
    assert (missing["done"], missing["error"]["code"]) == (False, "run_not_found")


def test_open_runs_are_cancelled_and_ended_ones_are_not(ask, failed_run):
    api.start("tests_app.one_local_step", 1, id="open")

    answer = ask("durable_cancel", "open", failed_run)

    assert answer.code == 1
    assert answer.out == "Cancelled open\n1 run cancelled, 1 skipped.\n"
    assert "Cannot cancel run 'doomed': it is failed." in answer.err
    assert api.get_run("open").status == "cancelled"


def test_silence_leaves_the_complaints(ask, failed_run):
    answer = ask("durable_retry", failed_run, "nix", "--verbosity", "0")

    assert answer.out == ""
    assert "There is no run 'nix'." in answer.err


def test_ids_are_required(ask):
    assert "RUN_ID" in ask("durable_cancel").err
