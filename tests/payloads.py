"""Values that have broken stores, codecs and readers before, with what must become of each.

Every list entry is ``(label, value, annotation, expectation)``:

* ``"same"``: the value comes back equal and of the same type;
* ``"same_text"``: its JSON comes back, because the annotation does not say more (``Any``);
* ``"refused"``: ``PayloadError`` before anything is written.

Database tests send each of them as input, output, error text, signal and progress.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic

Expectation = Literal["same", "same_text", "refused"]
Case = tuple[str, Any, Any, Expectation]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


@dataclass
class Money:
    amount: decimal.Decimal
    currency: str = "EUR"


@dataclass
class Order:
    id: int
    prices: list[Money]
    placed_at: dt.datetime | None = None
    note: str = ""
    seen: int = dataclasses.field(default=0, init=False)
    total: decimal.Decimal = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = sum((each.amount for each in self.prices), decimal.Decimal(0))


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Parcel(msgspec.Struct, rename="camel"):
    parcel_id: int
    sent_to: Address | None = None


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Customer(pydantic.BaseModel):
    name: str
    born: dt.date
    mail: str = pydantic.Field(default="", alias="eMail")


class Strict(pydantic.BaseModel, extra="forbid"):
    net: int

    @pydantic.computed_field
    def gross(self) -> int:
        return self.net * 2


class NamedText(str):
    __slots__ = ()


class NamedNumber(int):
    pass


class NamedFloat(float):
    pass


class Unknown:
    pass


class FakeModel:
    _meta = object()
    pk = 7


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def loop() -> Any:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


def seen_order() -> Order:
    order = Order(1, [Money(decimal.Decimal("2.50"))])
    order.seen = 5
    return order


UTC = dt.UTC
NAIVE = dt.datetime(2024, 1, 1, 5, 0, 0, 1)  # noqa: DTZ001  # users store naive ones too
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))

TEXTS: list[tuple[str, str]] = [
    ("empty text", ""),
    ("every script", "Ωμέγα שלום 漢字 हिन्दी 🏳️‍🌈 e\u0301"),
    ("NUL", "a\x00b"),
    ("NUL at the end", "a\x00"),
    ("lone high surrogate", "a\ud800b"),
    ("lone low surrogate", "\udc00"),
    ("surrogates in the wrong order", "\udc00\ud800"),
    ("control characters", "".join(map(chr, range(32))) + "\x7f\x85"),
    ("line separators", "\u2028\u2029\r\n"),
    ("byte order mark and noncharacters", "\ufeff\ufffe\uffff"),
    ("four-byte characters", "\U0001f600\U0010ffff"),
    ("quotes and backslashes", "\"\\/\b\f\n\r\t'%s%%{}"),
    ("text that looks like JSON", '{"a": NaN}'),
    ("text that looks like an escape", "\\u0000"),
    ("trailing spaces", "a   "),
    ("a megabyte", "x" * 1_000_000),
]

CORPUS: list[Case] = [
    *((f"{label} as text", text, str, "same") for label, text in TEXTS),
    *((f"{label} as key", {text: 1}, dict[str, int], "same") for label, text in TEXTS[:-1]),
    *((f"{label} without annotation", {"k": [text]}, Any, "same_text") for label, text in TEXTS[:-1]),
    ("null", None, None, "same"),
    ("true", True, bool, "same"),
    ("zero", 0, int, "same"),
    ("minus zero", -0.0, float, "same"),
    ("minus zero in a list", [-0.0, 0.0], list[float], "same"),
    ("smallest float", 5e-324, float, "same"),
    ("largest float", 1.7976931348623157e308, float, "same"),
    ("float that needs 17 digits", 0.1 + 0.2, float, "same"),
    ("whole float", 1e22, float, "same"),
    ("whole number without annotation", [1, 1.0], Any, "same_text"),
    ("2**53 + 1", 2**53 + 1, int, "same"),
    ("2**64", 2**64, int, "same"),
    ("2**70 in a list", [2**70, -(2**70)], list[int], "same"),
    ("4,300 digits", 10**4299, int, "same"),
    ("4,300 digits, negative", -(10**4299), int, "same"),
    ("4,301 digits", 10**4300, int, "refused"),
    ("10,000 digits", {"n": 10**9999}, Any, "refused"),
    ("NaN", float("nan"), float, "refused"),
    ("Infinity", {"a": [float("inf")]}, Any, "refused"),
    ("minus Infinity", float("-inf"), float, "refused"),
    ("NaN as Decimal", decimal.Decimal("NaN"), decimal.Decimal, "refused"),
    ("Infinity as Decimal", decimal.Decimal("Infinity"), decimal.Decimal, "refused"),
    ("bytes", b"abc", bytes, "refused"),
    ("bytearray", bytearray(b"abc"), Any, "refused"),
    ("set", {1, 2}, Any, "refused"),
    ("frozenset", frozenset(), Any, "refused"),
    ("number as key", {1: "a"}, dict[int, str], "refused"),
    ("None as key", {None: "a"}, Any, "refused"),
    ("tuple as key", {(1, 2): "a"}, Any, "refused"),
    ("bool as key", {True: "a"}, Any, "refused"),
    ("model instance", FakeModel(), Any, "refused"),
    ("unknown object", {"a": Unknown()}, Any, "refused"),
    ("class", int, Any, "refused"),
    ("function", len, Any, "refused"),
    ("iterator", iter([1]), Any, "refused"),
    ("complex number", 1j, Any, "refused"),
    ("value that contains itself", loop(), Any, "refused"),
    ("64 levels", nested(64), Any, "same_text"),
    ("66 levels", nested(66), Any, "refused"),
    ("100,000 levels", nested(100_000), Any, "refused"),
    ("order of keys", {"z": 1, "a": 2, "m": 3}, dict[str, int], "same"),
    ("many keys", {str(number): number for number in range(1_000)}, dict[str, int], "same"),
    ("empty key", {"": {}}, dict[str, dict[str, int]], "same"),
    ("tuple", (1, "a"), tuple[int, str], "same"),
    ("tuple of any length", (1, 2, 3), tuple[int, ...], "same"),
    ("tuple without annotation", (1, 2), Any, "same_text"),
    ("aware datetime", dt.datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC), dt.datetime, "same"),
    ("datetime with an offset", dt.datetime(2024, 1, 1, 5, tzinfo=INDIA), dt.datetime, "same"),
    ("naive datetime", NAIVE, dt.datetime, "same"),
    ("first datetime", dt.datetime.min.replace(tzinfo=UTC), dt.datetime, "same"),
    ("last datetime", dt.datetime.max.replace(tzinfo=UTC), dt.datetime, "same"),
    ("date", dt.date(1, 1, 1), dt.date, "same"),
    ("time", dt.time(23, 59, 59, 999999), dt.time, "same"),
    ("time with an offset", dt.time(1, 2, tzinfo=INDIA), dt.time, "same"),
    ("timedelta", dt.timedelta(days=1, microseconds=1), dt.timedelta, "same"),
    ("negative timedelta", dt.timedelta(microseconds=-1), dt.timedelta, "same"),
    ("longest timedelta", dt.timedelta.max, dt.timedelta, "same"),
    ("shortest timedelta", dt.timedelta.min, dt.timedelta, "same"),
    ("Decimal", decimal.Decimal("1.10"), decimal.Decimal, "same"),
    ("long Decimal", decimal.Decimal("1E+1000"), decimal.Decimal, "same"),
    ("UUID", uuid.UUID(int=1), uuid.UUID, "same"),
    ("enum", Colour.RED, Colour, "same"),
    ("int enum", Level.HIGH, Level, "same"),
    ("text enum", Word.YES, Word, "same"),
    ("text enum as key", {Word.YES: 1}, dict[Word, int], "same"),
    ("enums in a list", [Colour.RED, Colour.BLUE], list[Colour], "same"),
    ("literal", "a", Literal["a", "b"], "same"),
    ("dataclass", Money(decimal.Decimal("9.99")), Money, "same"),
    ("nested dataclass", Order(1, [Money(decimal.Decimal(0))], NAIVE), Order, "same"),
    ("dataclass with a field of its own", seen_order(), Order, "same"),
    ("dataclass or nothing", None, Money | None, "same"),
    ("named tuple", Point(1, 2), Point, "same"),
    ("named tuples in a dict", {"a": [Point(1)]}, dict[str, list[Point]], "same"),
    ("typed dict", {"street": "x"}, Address, "same"),
    ("typed dict with all keys", {"street": "x", "number": 1}, Address, "same"),
    ("msgspec struct", Parcel(parcel_id=1, sent_to={"street": "x"}), Parcel, "same"),
    ("tagged structs", [Circle(1.5), Square(2.0)], list[Circle | Square], "same"),
    ("pydantic model", Customer(name="Ada", born=dt.date(1815, 12, 10), eMail="a@b.c"), Customer, "same"),
    ("pydantic models in a dict", {"a": Customer(name="A", born=dt.date(2000, 1, 1))}, dict[str, Customer], "same"),
    ("pydantic model with a computed field", Strict(net=1), Strict, "same"),
    ("number or text", [1, "1"], list[int | str], "same"),
    ("subclass of str", NamedText("a"), Any, "same_text"),
    ("subclass of int", NamedNumber(7), Any, "same_text"),
    ("subclass of float", NamedFloat(0.5), Any, "same_text"),
    ("date without annotation", {"at": dt.date(2024, 1, 1)}, Any, "same_text"),
    ("Decimal in a plain dict", {"price": decimal.Decimal("1.10")}, dict[str, Any], "same_text"),
    ("dataclass without annotation", Money(decimal.Decimal(1)), Any, "same_text"),
]

BAD_TEXTS: list[tuple[str, str]] = [
    ("nothing", ""),
    ("NaN", '{"a":NaN}'),
    ("Infinity", "[Infinity]"),
    ("minus Infinity", "-Infinity"),
    ("half an object", '{"a":1'),
    ("two values", "1 2"),
    ("5,000 digits", "9" * 5_000),
    ("200,000 levels", "[" * 200_000 + "]" * 200_000),
    ("single quotes", "{'a': 1}"),
]
