"""How values are shown to people."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from durable.core.showing import (
    MASK,
    display_width,
    fit,
    mask_secrets,
    one_line,
    queue_wait,
    show_duration,
    show_json,
    show_queue_wait,
    show_span,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.000_123, "0.123 ms"),
        (0.0064, "6.4 ms"),
        (0.012, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.234, "1.23 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "60.0 s"),
        (59.996, "1 min"),
        (61, "1 min 1 s"),
        (3599.6, "1 h"),
        (3660, "1 h 1 min"),
        (86_400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
        (-5, "0 ms"),
    ],
)
def test_durations_have_two_units(seconds, text):
    assert show_duration(timedelta(seconds=seconds)) == text


def test_a_span_that_lasts_has_an_ellipsis():
    later = NOON + timedelta(seconds=5)

    assert show_span(NOON, later) == "5.00 s"
    assert show_span(NOON, None, later) == "5.00 s …"
    assert show_span(NOON, None) == ""
    assert show_span(None, None, later) == ""


def test_a_wait_is_told_where_it_is_known():
    later = NOON + timedelta(seconds=5)

    assert queue_wait(NOON, later) == timedelta(seconds=5)
    assert queue_wait(later, NOON) is None  # enqueued again after it had started
    assert show_queue_wait(NOON, later) == "5.00 s"
    assert show_queue_wait(later, NOON) == ""
    assert show_queue_wait(NOON, None, later) == "5.00 s …"
    assert show_queue_wait(None, later) == ""


def test_one_line_steers_nothing():
    assert one_line("a\n\tb\x1b[2J\x00\u202e\ud800c ") == "a b\ufffd[2J\ufffd\ufffd\ufffdc"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


def test_width_counts_columns():
    assert display_width("注文") == 4
    assert display_width("e\u0301") == 1
    assert fit("注文です", 5) == "注文…"
    assert fit("abc", 3) == "abc"


def test_secrets_are_masked_at_any_depth():
    value = {"user": "Zoë", "API_KEY": "x", "list": [{"my_password": 1, "token": None}], "deep": {"secret": {"a": 1}}}

    assert mask_secrets(value, ("password", "api_key", "token", "Secret")) == {
        "user": "Zoë",
        "API_KEY": MASK,
        "list": [{"my_password": MASK, "token": None}],
        "deep": {"secret": MASK},
    }
    assert mask_secrets(value, ()) is value


def test_json_is_shown_masked_or_not_at_all():
    assert show_json('{"ü":1,"password":"x"}', ("password",)) == '{"ü": 1, "password": "********"}'
    assert show_json("[1]", (), indent=2) == "[\n  1\n]"
    assert show_json("password=x", ("password",)) == "(10 characters that are no JSON)"
    assert show_json("[" * 100_000, ()) == "(100,000 characters, nested too deeply to be shown)"
    assert "too large" in show_json(json.dumps("x" * 1_000_001), ())


def test_half_a_surrogate_pair_is_shown_as_an_escape():
    shown = show_json('{"a": "\\ud800", "b": "é"}', ())

    assert shown.encode()
    assert "\\ud800" in shown
