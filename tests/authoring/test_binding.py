import datetime as dt
import json
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.authoring.binding import Binding
from durable.core.errors import ConfigurationError, PayloadError, PayloadTooLarge
from tests.payloads import CORPUS, Money, Order

if TYPE_CHECKING:
    from tests.payloads import Customer


def of(function: Any, *, skip_context: bool = False) -> Binding:
    return Binding.of(function, skip_context=skip_context, name=function.__name__)


def nothing() -> None: ...


def single(order: Order) -> Money:
    return order.prices[0]


def several(order_id: int, amount: Decimal, note: str = "none", *, urgent: bool = False) -> dict[str, Any]:
    return {}


def positional(a: int, b: int, /, c: int = 3) -> int:
    return a + b + c


def untyped(a, b=2):
    return a


def body(ctx: "Unimportable", day: dt.date) -> dt.date:  # type: ignore[name-defined]  # noqa: F821
    return day


def test_no_parameter_gives_null():
    assert of(nothing).shape == "none"
    assert of(nothing).encode_arguments((), {}) == "null"
    assert of(nothing).decode_arguments("null") == ((), {})


@pytest.mark.parametrize(("args", "kwargs"), [((dt.date(2024, 1, 2),), {}), ((), {"day": dt.date(2024, 1, 2)})])
def test_one_parameter_takes_the_input_whole(args, kwargs):
    binding = of(body, skip_context=True)

    assert binding.shape == "single"
    assert binding.encode_arguments(args, kwargs) == '"2024-01-02"'
    assert binding.decode_arguments('"2024-01-02"') == ((), {"day": dt.date(2024, 1, 2)})


def test_several_parameters_become_one_object_in_their_order_with_defaults():
    text = of(several).encode_arguments((7,), {"urgent": True, "amount": Decimal("1.10")})

    assert of(several).shape == "object"
    assert text == '{"order_id":7,"amount":"1.10","note":"none","urgent":true}'
    assert of(several).decode_arguments(text) == (
        (),
        {"order_id": 7, "amount": Decimal("1.10"), "note": "none", "urgent": True},
    )


@given(st.integers(), st.integers(), st.integers())
def test_what_was_encoded_calls_the_function_alike(a, b, c):
    args, kwargs = of(positional).decode_arguments(of(positional).encode_arguments((a, b), {"c": c}))

    assert positional(*args, **kwargs) == positional(a, b, c)
    assert args == (a, b)


@pytest.mark.parametrize(
    ("label", "value", "annotation"),
    [case[:3] for case in CORPUS if case[3] != "refused"],
    ids=[case[0] for case in CORPUS if case[3] != "refused"],
)
def test_every_value_of_the_corpus_passes_as_argument_and_result(label, value, annotation):
    def function(it, other=None): ...

    function.__annotations__ = {"it": annotation, "return": annotation}
    binding = of(function)
    text = binding.encode_arguments((value,), {})
    result, received = binding.settle_result(value)

    assert binding.decode_arguments(text)[1]["it"] == binding.decode_result(result) == received


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"several\(\): missing a required argument: 'order_id'"),
        ((1, 2, 3, 4), {}, r"several\(\): too many positional arguments"),
        ((1, 2), {"order_id": 1}, r"several\(\): multiple values for argument 'order_id'"),
        ((1, 2), {"colour": 1}, r"several\(\): got an unexpected keyword argument 'colour'"),
    ],
)
def test_wrong_arguments_are_a_type_error_that_names_the_function(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        of(several).encode_arguments(args, kwargs)


@pytest.mark.parametrize(
    ("function", "text", "where", "path"),
    [
        (several, '{"order_id":"x","amount":"1"}', "several, parameter 'order_id'", "$.order_id"),
        (single, '{"id":1,"prices":[{}]}', "single, parameter 'order'", "$.prices[0]"),
        (several, '{"order_id":1}', "several", "$"),
        (several, '{"order_id":1,"amount":"1","colour":2}', "several", "$.colour"),
        (several, "[1,2]", "several", "$"),
        (nothing, "{}", "nothing", "$"),
        (several, "null", "several", "$"),
    ],
)
def test_an_input_that_does_not_fit_names_the_parameter(function, text, where, path):
    with pytest.raises(PayloadError) as caught:
        of(function).check_input(text)

    assert (caught.value.where, caught.value.path) == (where, path)


def test_a_missing_parameter_is_named():
    with pytest.raises(PayloadError, match="no value for parameter 'amount'"):
        of(several).check_input('{"order_id":1}')


def test_an_input_that_fits_passes_the_check():
    of(several).check_input('{"order_id":1,"amount":"1"}')


def grown(order_id: int, note: str = "") -> None: ...


def grown_from_nothing(note: str = "x") -> None: ...


@pytest.mark.parametrize(
    ("function", "text", "shape", "expected"),
    [
        (grown, "7", "single", {"order_id": 7}),
        (grown, '{"order_id":7}', "object", {"order_id": 7}),
        (grown_from_nothing, "null", "none", {}),
        (grown_from_nothing, '{"note":"y"}', "object", {"note": "y"}),
        (several, '{"order_id":1,"amount":"2"}', "object", {"order_id": 1, "amount": Decimal(2)}),
    ],
)
def test_an_input_of_an_older_signature_still_binds(function, text, shape, expected):
    assert of(function).decode_arguments(text, shape=shape) == ((), expected)


@pytest.mark.parametrize(("shape", "text"), [("single", "7"), ("object", '{"gone":1}')])
def test_an_input_that_no_parameter_takes_any_more_is_refused(shape, text):
    with pytest.raises(PayloadError):
        of(nothing).decode_arguments(text, shape=shape)


def starred(*items: int) -> None: ...


def double_starred(**items: int) -> None: ...


@pytest.mark.parametrize(("function", "name"), [(starred, r"\*items"), (double_starred, r"\*\*items")])
def test_parameters_without_a_fixed_place_are_refused(function, name):
    with pytest.raises(ConfigurationError, match=name):
        of(function)


@pytest.mark.parametrize("function", [nothing, starred])
def test_a_body_without_a_context_is_refused(function):
    with pytest.raises(ConfigurationError, match="needs the context"):
        of(function, skip_context=True) if function is nothing else of(lambda *, ctx: None, skip_context=True)


def unresolved(customer: "Customer", other: int) -> "list[Customer]":
    return [customer]


def test_an_annotation_that_cannot_be_resolved_names_the_parameter_and_is_reported_on_use():
    binding = of(unresolved)

    assert binding.problem is not None
    assert "parameter 'customer'" in binding.problem
    assert "the result" in binding.problem
    assert "'other'" not in binding.problem
    for use in (
        lambda: binding.encode_arguments((1, 2), {}),
        lambda: binding.decode_arguments("{}"),
        lambda: binding.encode_result(1),
        lambda: binding.decode_result("1"),
    ):
        with pytest.raises(ConfigurationError, match="parameter 'customer'"):
            use()


def wrong_kind(data: bytes) -> int:
    return 0


def test_an_annotation_that_json_cannot_fill_is_a_problem():
    assert of(wrong_kind).problem == "parameter 'data': bytes cannot be carried by JSON; use str, for example base64"


def test_a_context_whose_annotation_cannot_be_resolved_does_not_matter():
    assert of(body, skip_context=True).problem is None


def test_a_result_that_does_not_fit_is_refused_before_it_is_stored():
    with pytest.raises(PayloadError, match="Expected `object`"):
        of(single).encode_result("no money")


def test_a_result_comes_back_as_every_later_reader_gets_it():
    assert of(untyped).settle_result((1, Decimal("1.5"))) == ('[1,"1.5"]', [1, "1.5"])
    assert of(single).settle_result(Money(Decimal(1))) == ('{"amount":"1","currency":"EUR"}', Money(Decimal(1)))


def test_a_function_annotated_to_return_none_stores_null_whatever_it_returned():
    assert of(nothing).encode_result(object()) == "null"


@pytest.mark.parametrize(
    "encode",
    [
        lambda b: b.encode_arguments(("x" * 99,), {}, limit_bytes=50),
        lambda b: b.encode_result("x" * 99, limit_bytes=50),
    ],
)
def test_what_is_over_the_limit_is_refused(encode):
    with pytest.raises(PayloadTooLarge):
        encode(of(untyped))


def test_kinds_lost_under_a_loose_annotation_are_logged_once(caplog):
    caplog.set_level(logging.WARNING, "durable")
    for _ in range(3):
        of(untyped).encode_arguments((Decimal(1),), {}, where="a step that loses its Decimal")
        of(several).encode_arguments((1, Decimal(1)), {}, where="a step that keeps its Decimal")

    assert [each.getMessage().partition(":")[0] for each in caplog.records] == ["a step that loses its Decimal"]


def test_untyped_arguments_arrive_as_plain_json():
    text = of(untyped).encode_arguments(((1, 2),), {})

    assert of(untyped).decode_arguments(text)[1] == {"a": [1, 2], "b": 2}
    assert json.loads(text) == {"a": [1, 2], "b": 2}


def test_a_builtin_without_a_signature_is_refused():
    with pytest.raises(ConfigurationError, match="signature"):
        Binding.of(dict, skip_context=False, name="dict")
