import datetime as dt
import decimal
import json
import logging
import uuid
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.authoring import codec
from durable.core.errors import PayloadError, PayloadTooLarge
from tests.payloads import BAD_TEXTS, CORPUS, Address, Colour, Customer, FakeModel, Level, Money, Order, Point

WHERE = "step shop.charge"


@pytest.mark.parametrize(("label", "value", "annotation", "expectation"), CORPUS, ids=[case[0] for case in CORPUS])
def test_each_value_comes_back_or_is_refused(label, value, annotation, expectation):
    if expectation == "refused":
        with pytest.raises(PayloadError, match=r"^step shop\.charge: at \$"):
            codec.encode(value, where=WHERE)
        return

    text = codec.encode(value, where=WHERE)
    received = codec.decode(text, annotation, where=WHERE)

    again = codec.encode(received, where=WHERE)
    assert again == text
    text.encode()
    if expectation == "same":
        assert received == value
        assert type(received) is type(value)
        assert repr(received) == repr(value)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=20,
)


@given(plain_values)
def test_plain_values_come_back_equal_with_their_keys_in_order(value):
    received = codec.decode(codec.encode(value, where=WHERE), Any, where=WHERE)

    assert repr(received) == repr(value)


zones = st.one_of(
    st.none(), st.builds(dt.timezone, st.integers(-23 * 60, 23 * 60).map(lambda minutes: dt.timedelta(minutes=minutes)))
)
typed_values = st.one_of(
    st.tuples(st.just(dt.datetime), st.datetimes(timezones=zones)),
    st.tuples(st.just(dt.date), st.dates()),
    st.tuples(st.just(dt.time), st.times(timezones=zones)),
    st.tuples(st.just(dt.timedelta), st.timedeltas()),
    st.tuples(st.just(decimal.Decimal), st.decimals(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(uuid.UUID), st.uuids()),
    st.tuples(st.just(Money), st.builds(Money, st.decimals(allow_nan=False, allow_infinity=False), st.text())),
    st.tuples(st.just(Point), st.builds(Point, st.integers(), st.integers())),
    st.tuples(st.just(tuple[Level, Colour]), st.tuples(st.sampled_from(Level), st.sampled_from(Colour))),
    st.tuples(st.just(list[float]), st.lists(st.floats(allow_nan=False, allow_infinity=False))),
    st.tuples(st.just(Customer), st.builds(Customer, name=st.text(), born=st.dates(), eMail=st.text())),
)


@given(typed_values)
def test_typed_values_come_back_equal_and_of_their_type(pair):
    annotation, value = pair

    received = codec.decode(codec.encode(value, where=WHERE), annotation, where=WHERE)

    assert received == value
    assert str(received) == str(value)


@given(plain_values)
def test_what_was_received_encodes_to_the_same_text_again(value):
    text = codec.encode(value, where=WHERE)

    assert codec.encode(codec.decode(text, Any, where=WHERE), where=WHERE) == text


def test_an_offset_of_odd_seconds_keeps_the_instant():
    local_mean_time = dt.datetime(1900, 1, 1, tzinfo=dt.timezone(dt.timedelta(minutes=19, seconds=32)))

    received = codec.decode(codec.encode(local_mean_time, where=WHERE), dt.datetime, where=WHERE)

    assert received == local_mean_time


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"items": [1, 2, 3, {"price": float("nan")}]}, "$.items[3].price"),
        ({"a b": {1}}, "$['a b']"),
        ([b"x"], "$[0]"),
        ({"a": {2: 1}}, "$.a"),
        (Order(1, [Money(decimal.Decimal("NaN"))]), "$.prices[0].amount"),
        (([1, float("inf")],), "$[0][1]"),
    ],
)
def test_a_refusal_names_the_place_inside_the_value(value, path):
    with pytest.raises(PayloadError) as caught:
        codec.encode(value, where=WHERE)

    assert caught.value.path == path
    assert caught.value.where == WHERE


def test_a_value_that_contains_itself_is_named_where_it_closes():
    value: dict[str, Any] = {"a": [0]}
    value["a"].append(value)

    with pytest.raises(PayloadError, match="contains itself") as caught:
        codec.encode(value, where=WHERE)

    assert caught.value.path == "$.a[1]"


def test_a_shared_value_is_not_taken_for_one_that_contains_itself():
    shared = {"a": 1}
    value: Any = [shared, shared]
    for _ in range(70):
        value = [shared, value]

    with pytest.raises(PayloadError, match="nested deeper than 64 levels"):
        codec.encode(value, where=WHERE)


def test_a_model_instance_is_refused_with_advice():
    with pytest.raises(PayloadError, match=r"FakeModel.*pass its pk"):
        codec.encode({"a": FakeModel()}, where=WHERE)


def test_the_same_value_may_occur_twice():
    shared = [1]

    assert codec.encode([shared, shared, [shared] * 70], where=WHERE).startswith("[[1],[1],[[1],")


@pytest.mark.parametrize(("text", "size"), [("a", 3), ("ä", 4), ("\U0001f600", 6), ("\ud800", 8)])
def test_the_limit_counts_bytes_of_the_stored_text(text, size):
    assert codec.encode(text, where=WHERE, limit_bytes=size)
    with pytest.raises(PayloadTooLarge) as caught:
        codec.encode(text, where=WHERE, limit_bytes=size - 1)

    assert caught.value.size_bytes == size
    assert caught.value.limit_bytes == size - 1


@pytest.mark.parametrize(("label", "text"), BAD_TEXTS, ids=[case[0] for case in BAD_TEXTS])
def test_text_that_is_no_json_is_a_payload_error(label, text):
    with pytest.raises(PayloadError):
        codec.decode(text, Any, where=WHERE)


def test_of_a_key_given_twice_the_last_one_counts():
    assert codec.decode('{"a":1,"a":2}', Any, where=WHERE) == {"a": 2}


def test_no_text_is_null():
    assert codec.decode(None, int | None, where=WHERE) is None


@pytest.mark.parametrize(
    ("text", "annotation", "path"),
    [
        ('"x"', int, "$"),
        ('{"street":1}', Address, "$.street"),
        ('{"id":1,"prices":[{"amount":"x"}]}', Order, "$.prices[0].amount"),
        ("{}", Address, "$"),
        ("1", bool, "$"),
        ("1.5", int, "$"),
        ("true", int, "$"),
        ('"green"', Colour, "$"),
        ('[{"name":1}]', list[Customer], "$[0]"),
        ("0", Annotated[int, msgspec.Meta(gt=0)], "$"),
    ],
)
def test_a_value_that_does_not_fit_its_annotation_is_named_with_its_place(text, annotation, path):
    with pytest.raises(PayloadError) as caught:
        codec.decode(text, annotation, where=WHERE)

    assert caught.value.path == path


@pytest.mark.parametrize("annotation", [Any, object, codec.MISSING])
def test_without_an_annotation_the_plain_value_arrives(annotation):
    assert codec.decode('{"at":"2024-01-01"}', annotation, where=WHERE) == {"at": "2024-01-01"}


def test_a_pydantic_model_is_read_by_alias_and_by_name():
    by_alias = codec.decode('{"name":"A","born":"2000-01-01","eMail":"x"}', Customer, where=WHERE)
    by_name = codec.decode('{"name":"A","born":"2000-01-01","mail":"x"}', Customer, where=WHERE)

    assert by_alias == by_name
    assert by_name.mail == "x"


class Model:
    _meta = object()


class Other:
    pass


T = TypeVar("T")


class Page(msgspec.Struct, Generic[T]):
    items: list[T]


class Tree(NamedTuple):
    children: "list[Tree]"


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Other, "cannot be rebuilt"),
        (list[Other | None], "cannot be rebuilt"),
        (Model, "pass its pk"),
        (bytes, "base64"),
        (dict[str, list[bytes]], "base64"),
        (set[int], "no order"),
        (dict[int, str], "keys of a mapping must be text"),
        (Money | Order, "more than one"),
        (dt.date | str, "more than one"),
        (Page[Other], "cannot be rebuilt"),
    ],
)
def test_an_annotation_that_cannot_be_rebuilt_says_why(annotation, problem):
    assert problem in (codec.annotation_problem(annotation) or "")


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        None,
        Any,
        Order,
        Customer,
        list[Customer | None],
        Page[int],
        dict[str, Any],
        Tree,
        int | str | None,
        Address,
    ],
)
def test_an_annotation_that_can_be_rebuilt_has_no_problem(annotation):
    assert codec.annotation_problem(annotation) is None


def test_kinds_that_become_text_are_found_anywhere_inside():
    value = {"a": [decimal.Decimal(1), {"b": (dt.date(2024, 1, 1), Colour.RED)}], "c": Money(decimal.Decimal(1))}

    assert codec.lossy_kinds(value) == {"Decimal", "date", "Colour", "Money"}
    assert codec.lossy_kinds({"a": [1, "x", None, 1.5, True]}) == frozenset()


def test_lost_kinds_are_logged_once_per_place(caplog):
    caplog.set_level(logging.WARNING, "durable")
    for _ in range(3):
        codec.warn_of_lost_kinds({"a": decimal.Decimal(1)}, {"a": "1"}, where="a place of its own")

    (record,) = caplog.records
    assert record.getMessage().startswith("a place of its own: Decimal arrives as plain JSON")


def test_kinds_that_come_back_are_not_logged(caplog):
    caplog.set_level(logging.WARNING, "durable")
    codec.warn_of_lost_kinds([decimal.Decimal(1)], [decimal.Decimal(1)], where="another place")

    assert not caplog.records


def test_text_stays_readable_unless_it_holds_lone_surrogates():
    assert codec.encode("ä漢", where=WHERE) == '"ä漢"'
    assert codec.encode("ä\ud800", where=WHERE) == json.dumps("ä\ud800")
