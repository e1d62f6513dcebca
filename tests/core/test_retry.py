from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.core.backoff import Backoff
from durable.core.failure import Failure
from durable.core.retry import GiveUp, RetryIn, RetryPolicy, judge

SECOND = timedelta(seconds=1)


def backoff(kind: str, *, jitter: bool = False) -> Backoff:
    return Backoff(kind=kind, base=SECOND, maximum=10 * SECOND, jitter=jitter)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("fixed", [1, 1, 1, 1, 1]), ("linear", [1, 2, 3, 4, 5]), ("exponential", [1, 2, 4, 8, 10])],
)
def test_the_wait_grows_as_its_kind_says_up_to_the_maximum(kind, seconds):
    assert [backoff(kind).delay(attempt, 0.5) / SECOND for attempt in range(1, 6)] == seconds


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("attempt", [1_000, 10**9, 10**30])
def test_no_number_of_attempts_overflows(kind, attempt):
    assert backoff(kind).delay(attempt, 0.5) <= 10 * SECOND


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 100))
def test_jitter_draws_between_zero_and_the_wait(draw, attempt):
    plain = backoff("exponential").delay(attempt, draw)

    assert timedelta(0) <= backoff("exponential", jitter=True).delay(attempt, draw) <= plain


def test_jitter_reaches_both_ends():
    full = backoff("fixed", jitter=True)

    assert full.delay(1, 0.0) == timedelta(0)
    assert full.delay(1, 0.999999) > 0.99 * SECOND


def test_attempts_count_from_one():
    with pytest.raises(ValueError, match="from 1"):
        backoff("fixed").delay(0, 0.5)


def test_a_base_above_the_maximum_is_cut():
    eager = Backoff(kind="fixed", base=timedelta(hours=1), maximum=SECOND, jitter=False)

    assert eager.delay(1, 0.0) == SECOND


POLICY = RetryPolicy(retries=2, backoff=backoff("exponential"))
FAILURE = Failure(kind="X")


def test_retries_are_further_attempts_after_the_first():
    verdicts = [judge(FAILURE, attempts, POLICY, 0.0) for attempts in (1, 2, 3)]

    assert verdicts == [RetryIn(delay=SECOND), RetryIn(delay=2 * SECOND), GiveUp()]


def test_without_retries_the_first_failure_is_final():
    assert judge(FAILURE, 1, RetryPolicy(retries=0, backoff=backoff("fixed")), 0.0) == GiveUp()


def test_what_is_not_retryable_is_final_at_once():
    assert judge(Failure(kind="X", retryable=False), 1, POLICY, 0.0) == GiveUp()


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
def test_a_stored_policy_judges_as_before(kind):
    policy = RetryPolicy(retries=5, backoff=backoff(kind, jitter=True))

    assert RetryPolicy.from_json(policy.to_json()) == policy
