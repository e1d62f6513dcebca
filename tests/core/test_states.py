from itertools import product

import pytest

from durable.core.states import RETRYABLE, TERMINAL, TRANSITIONS, RunStatus, can_change, origins_of

S = RunStatus


def test_the_table_knows_every_status():
    assert set(TRANSITIONS) == set(RunStatus)


def test_a_status_never_follows_itself():
    assert not [each for each in RunStatus if can_change(each, each)]


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_only_a_retry_leaves_a_terminal_status(status):
    following = {each for each in RunStatus if can_change(status, each)}

    assert following == ({S.PENDING} if status in RETRYABLE else set())


def test_a_completed_run_stays_completed():
    assert S.COMPLETED not in RETRYABLE


def test_every_living_status_can_reach_an_end():
    living = set(RunStatus) - TERMINAL
    reached = set(TERMINAL)
    for _ in RunStatus:
        reached |= {before for before, after in product(living, set(reached)) if can_change(before, after)}

    assert living <= reached


@pytest.mark.parametrize(
    ("before", "after"),
    [(S.PENDING, S.COMPLETED), (S.SUSPENDED, S.COMPLETED), (S.CANCELLING, S.COMPLETED), (S.COMPLETED, S.FAILED)],
)
def test_shortcuts_are_refused(before, after):
    assert not can_change(before, after)


def test_origins_are_the_table_read_backwards():
    assert {(before, after) for after in RunStatus for before in origins_of(after)} == {
        (before, after) for before, following in TRANSITIONS.items() for after in following
    }


def test_statuses_are_stored_as_their_text():
    assert f"{S.PENDING}" == "pending"
