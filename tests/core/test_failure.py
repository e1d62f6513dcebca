import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.core.errors import FatalError, StepFailed
from durable.core.failure import LIMIT_BYTES, Failure

SURROGATES = st.characters(codec=None)


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001  # the test looks at whatever was raised
        return caught


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Trap(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no")


def test_it_names_class_message_and_place():
    failure = Failure.from_exception(_raised(ValueError("no stock")), seq=3, attempts=2)

    assert (failure.kind, failure.message, failure.seq, failure.attempts) == ("ValueError", "no stock", 3, 2)
    assert failure.retryable
    assert failure.traceback is not None
    assert "test_failure.py" in failure.traceback
    assert failure.traceback.endswith("ValueError: no stock\n")


def test_it_takes_code_seq_and_attempts_from_the_exception():
    failure = Failure.from_exception(StepFailed("charge", "declined", "no", 4, 7))

    assert (failure.code, failure.seq, failure.attempts, failure.retryable) == ("declined", 7, 4, False)


@pytest.mark.parametrize(("error", "retryable"), [(FatalError("x"), False), (ValueError("x"), True)])
def test_it_knows_what_is_worth_another_attempt(error, retryable):
    assert Failure.from_exception(error).retryable is retryable


def test_a_code_that_is_no_text_is_left_out():
    error = SystemExit(3)

    assert Failure.from_exception(error).code is None


@pytest.mark.parametrize("error", [Mute(), Trap("x")])
def test_an_exception_that_cannot_be_looked_at_is_still_described(error):
    failure = Failure.from_exception(_raised(error))

    assert failure.kind == type(error).__name__
    assert Failure.from_json(failure.to_json()) == failure


def _deep_chain() -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(1, 1_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def _ring() -> BaseException:
    first, second = ValueError("1"), ValueError("2")
    first.__context__, second.__context__ = second, first
    return first


def _recursion() -> BaseException:
    def again() -> None:
        again()

    try:
        again()
    except RecursionError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        _deep_chain(),
        _ring(),
        _recursion(),
        ValueError("x" * 50_000_000),
        ValueError("\x00" * 100_000),
        ValueError("\x01" * 100_000),
        ValueError("\ud800" * 100_000),
        ValueError("\U0001f600" * 100_000),
        ValueError('"' * 100_000),
        type("K" * 100_000, (Exception,), {"code": "c" * 100_000})("x"),
    ],
    ids=["deep", "ring", "recursion", "huge", "NUL", "control", "surrogates", "wide", "quotes", "long name"],
)
def test_what_is_stored_stays_below_32_kilobytes(error):
    text = Failure.from_exception(_raised(error)).to_json()

    assert len(text.encode()) <= LIMIT_BYTES
    assert Failure.from_json(text).kind


def test_a_failure_made_by_hand_is_bounded_too():
    text = Failure(kind="k" * 40_000, code="c" * 40_000, message="\x01" * 40_000, traceback="é" * 40_000).to_json()

    assert len(text.encode()) <= LIMIT_BYTES


def test_of_a_long_chain_the_last_exceptions_are_kept():
    traceback = Failure.from_exception(_deep_chain()).traceback

    assert traceback is not None
    assert traceback.endswith("ValueError: 999\n")
    assert "earlier exceptions are left out" in traceback


def test_a_context_that_the_user_suppressed_is_not_shown():
    error = ValueError("outer")
    error.__context__ = ValueError("inner")
    error.__suppress_context__ = True

    assert "inner" not in (Failure.from_exception(error).traceback or "")


@given(st.text(SURROGATES, max_size=20_000), st.text(SURROGATES, max_size=50))
def test_any_text_can_be_stored(message, code):
    error = ValueError(message)
    error.code = code  # type: ignore[attr-defined]

    text = Failure.from_exception(error).to_json()

    assert "\x00" not in json.loads(text)["message"]
    assert len(text.encode()) <= LIMIT_BYTES


@given(
    st.builds(
        Failure,
        kind=st.text(min_size=1, max_size=30),
        code=st.none() | st.text(max_size=30),
        message=st.text(max_size=300),
        retryable=st.booleans(),
        traceback=st.none() | st.text(max_size=300),
        attempts=st.none() | st.integers(0, 99),
        seq=st.none() | st.integers(0, 99),
    )
)
def test_json_and_back_changes_nothing_but_nul(failure):
    received = Failure.from_json(failure.to_json())

    assert repr(received) == repr(failure).replace("\\x00", "\ufffd")


def test_json_of_an_older_version_is_read():
    assert Failure.from_json('{"kind":"X","unknown":1}') == Failure(kind="X")


def test_json_that_is_no_object_is_refused():
    with pytest.raises(ValueError, match="object"):
        Failure.from_json("[1]")
