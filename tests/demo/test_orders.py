"""The order file is read as it is; what is malformed is reported in its place."""

from collections import Counter
from decimal import Decimal

import pytest

from testproject.shop.orders import APPROVAL_LIMIT, COLUMNS, parse_orders, read_orders, read_products
from testproject.shop.provider import EXPIRED_CARD, weather_of
from testproject.shop.steps import charge_card
from tests.demo.factories import make_purchase, write_orders

HEADER = ",".join(COLUMNS) + "\n"
GOOD = "7,Ana,Porto,TEA-EARL,2,15.80,tok_visa,\n"


def read(text):
    return list(parse_orders((HEADER + text).splitlines(keepends=True)))


def test_a_line_becomes_a_purchase():
    (line,) = read(GOOD)

    assert (line.number, line.problem) == (2, "")
    assert line.purchase == make_purchase(id=7, customer="Ana", address="Porto", note="")


def test_awkward_text_comes_back_as_it_was(tmp_path):
    awkward = [
        '"',
        ",",
        "a\nb\r\nc",
        "'; DROP TABLE x; --",
        "  x  ",
        "\t",
        "e\u0301",
        "👩\u200d👩\u200d👧\u200d👦",
        "\u202b\u05e2\u05d1\u05e8\u05d9\u05ea\u202c",
        "NULL",
        "=1+1",
        "\\",
    ]
    purchases = [make_purchase(customer=f"x{text}x", note=text) for text in awkward]

    lines = list(read_orders(write_orders(tmp_path / "orders.csv", purchases)))

    assert [line.purchase for line in lines] == purchases


def test_a_record_is_named_by_its_first_line():
    lines = read('1,Ana,"Rua 1\nPorto\nPT",TEA-EARL,2,15.80,tok_visa,\nshort\n' + GOOD)

    assert [line.number for line in lines] == [2, 5, 6]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("7,Ana,Porto,TEA-EARL\n", "4 columns instead of 8"),
        ("7,Ana,Porto,TEA-EARL,2,15.80,tok_visa,,\n", "9 columns instead of 8"),
        ("x,Ana,Porto,TEA-EARL,2,15.80,tok_visa,\n", "id is no whole number above zero: 'x'"),
        ("٣,Ana,Porto,TEA-EARL,2,15.80,tok_visa,\n", "id is no whole number above zero: '٣'"),
        ("7,Ana,Porto,TEA-EARL,0,15.80,tok_visa,\n", "quantity is no whole number above zero: '0'"),
        ("7,Ana,Porto,TEA-EARL,-2,15.80,tok_visa,\n", "quantity is no whole number above zero: '-2'"),
        ('7,Ana,Porto,TEA-EARL,2,"15,80",tok_visa,\n', "total is no amount of money: '15,80'"),
        ("7,Ana,Porto,TEA-EARL,2,NaN,tok_visa,\n", "total is no amount of money: 'NaN'"),
        ("7,Ana,Porto,TEA-EARL,2,Infinity,tok_visa,\n", "total is no amount of money: 'Infinity'"),
        ("7,Ana,Porto,TEA-EARL,2,1e99,tok_visa,\n", "total is no amount of money: '1e99'"),
        ("7,Ana,Porto,TEA-EARL,2,15.805,tok_visa,\n", "total is no amount of money: '15.805'"),
        ("7,Ana,Porto,TEA-EARL,2,-1.00,tok_visa,\n", "total is no amount of money: '-1.00'"),
        ("7, ,Porto,TEA-EARL,2,15.80,tok_visa,\n", "customer is empty"),
        ('7,"An"a,Porto,TEA-EARL,2,15.80,tok_visa,\n', "',' expected after '\"'"),
    ],
)
def test_a_malformed_line_is_reported_and_the_next_one_read(row, problem):
    bad, good = read(row + GOOD)

    assert bad.purchase is None
    assert bad.problem == problem
    assert good.purchase is not None


def test_a_quote_that_is_never_closed_is_reported():
    (line,) = read('7,"Ana,Porto\n')

    assert line.problem == "unexpected end of data"


def test_a_file_without_its_columns_is_refused():
    with pytest.raises(ValueError, match="The first line must be"):
        list(parse_orders(["a,b\n"]))


def test_the_shipped_file_is_as_awkward_as_life():
    lines = list(read_orders())
    purchases = [line.purchase for line in lines if line.purchase is not None]
    ids = Counter(purchase.id for purchase in purchases)
    text = "".join(purchase.customer + purchase.address + purchase.note for purchase in purchases)

    assert len(ids) >= 200
    assert [line.problem for line in lines if line.problem] == ["4 columns instead of 8"]
    assert [count for count in ids.values() if count > 1] == [2]
    assert sum(purchase.total == 0 for purchase in purchases) >= 3
    assert sum(purchase.total > APPROVAL_LIMIT for purchase in purchases) >= 20
    assert sum(purchase.card == EXPIRED_CARD for purchase in purchases) >= 3
    assert all(sample in text for sample in ['"', ",", "\n", "é", "山", "م", "ш", "🙏", "\\"])
    assert {purchase.sku for purchase in purchases} <= {product.sku for product in read_products()}


def test_every_card_of_the_shipped_file_is_charged_within_its_retries():
    attempts = range(1, charge_card.config.retries + 2)
    ids = [line.purchase.id for line in read_orders() if line.purchase is not None]
    first = [weather_of(each, 1) for each in ids]

    assert all(
        any(
            not (weather := weather_of(each, attempt)).is_unavailable and not weather.loses_answer
            for attempt in attempts
        )
        for each in ids
    )
    assert any(weather.is_unavailable for weather in first)
    assert any(weather.loses_answer for weather in first)


def test_money_is_exact():
    (line,) = read("7,Ana,Porto,TEA-EARL,2,0.10,tok_visa,\n")

    assert str(line.purchase.total) == "0.10"
    assert line.purchase.total * 3 == Decimal("0.30")
