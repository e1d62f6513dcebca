from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.core.durations import format_duration, parse_duration, to_ms, to_us
from durable.core.errors import InvalidDuration


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("1.5 h", timedelta(minutes=90)),
        (" 0s ", timedelta(0)),
        (30, timedelta(seconds=30)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(days=1), timedelta(days=1)),
    ],
)
def test_each_way_to_write_a_duration_is_read(value, expected):
    assert parse_duration(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.1,
        timedelta(seconds=-1),
        "-5s",
        "",
        "5",
        "s",
        "5 parsecs",
        "5S",
        "1h30m",
        "1e3s",
        "٣s",
        "5s\x00",
        "9" * 5_000 + "s",
        "999999999999999999d",
        "365251d",
        timedelta.max,
        True,
        None,
        b"5s",
        float("nan"),
        float("inf"),
        float("-inf"),
        10**400,
        1e300,
    ],
)
def test_what_is_no_duration_is_refused_with_what_is_accepted(value):
    with pytest.raises(InvalidDuration, match="'250ms', '30s', '5m', '2h' or '7d'"):
        parse_duration(value)


def test_the_refusal_is_a_value_error():
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration("soon")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365_250)))
def test_a_duration_written_and_read_is_the_same(duration):
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(days=7), "7d"),
        (timedelta(minutes=90), "90m"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(microseconds=1), "0.001ms"),
        (timedelta(microseconds=1250), "1.25ms"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_fits(duration, text):
    assert format_duration(duration) == text


@given(st.timedeltas(min_value=timedelta(0)))
def test_microseconds_are_exact_and_milliseconds_never_early(duration):
    assert timedelta(microseconds=to_us(duration)) == duration
    assert 0 <= to_ms(duration) * 1_000 - to_us(duration) < 1_000
