"""Values to JSON text and back: what crosses a checkpoint.

The text is plain JSON, so that workers in other languages read it. What user code receives is always
``decode(encode(value))``, the first time and on every replay, so encoding refuses whatever would not come back
faithfully, and names its place inside the value.

Outgoing values are walked here instead of by a library, because libraries turn NaN into null, numbers as keys into text
and unknown objects into something. Incoming values are converted to annotations by msgspec.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import logging
import math
import sys
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, get_args, get_origin

import msgspec

from durable.core.errors import PayloadError, PayloadTooLarge

MAX_DEPTH: Final = 64
"""Deeper values break other readers of JSON; no honest payload is deeper."""

MAX_INT_DIGITS: Final = 4300
"""Python itself refuses to read longer integers by default (``sys.int_info.default_max_str_digits``)."""

MISSING: Final = object()
"""Stands for "there is no annotation"."""

_INT_BOUND = 10**MAX_INT_DIGITS
_INT_BOUND_BITS = _INT_BOUND.bit_length()

_UTC = dt.UTC
_LOOSE: tuple[object, ...] = (Any, object, MISSING)
_logger = logging.getLogger("durable")
_MAX_WARNED_PLACES = 1_000
_warned_places: set[str] = set()


class _Refused(Exception):
    """Carry a problem up through the walk; each level adds its segment of the path."""

    def __init__(self, problem: str, depth: int | None = None) -> None:
        self.problem = problem
        self.depth = depth
        self.segments: list[str] = []

    @property
    def path(self) -> str:
        return "$" + "".join(list(reversed(self.segments))[: self.depth])


def encode(value: object, *, where: str, limit_bytes: int | None = None) -> str:
    """Return a value as JSON text, with the order of keys kept.

    Taken are text, numbers, booleans, None, lists, tuples, mappings with text keys, datetime, date, time, timedelta,
    Decimal, UUID, enums, dataclasses, named tuples, TypedDicts, msgspec Structs and pydantic models.

    Args:
        value: The value.
        where: The step, workflow or signal that it belongs to, for the error.
        limit_bytes: Upper bound of the text in UTF-8.

    Raises:
        PayloadError: Something inside cannot be carried; names its path.
        PayloadTooLarge: The text is over the limit.
    """
    try:
        plain = _to_plain(value, 0, [])
    except _Refused as refused:
        raise PayloadError(where, refused.path, refused.problem) from None
    text = _ENCODER.encode(plain)
    if text.isascii():
        size_bytes = len(text)
    else:
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            text = _ASCII_ENCODER.encode(plain)
            size_bytes = len(text)
    if limit_bytes is not None and size_bytes > limit_bytes:
        raise PayloadTooLarge(where, size_bytes, limit_bytes)
    return text


def decode(text: str | None, annotation: Any, *, where: str) -> Any:
    """Return the value that JSON text stands for, as the annotation says.

    Args:
        text: JSON text; None stands for ``null``.
        annotation: A resolved annotation. ``Any``, ``object`` and ``MISSING`` give the plain JSON value.
        where: The step, workflow or signal that it belongs to, for the error.

    Raises:
        PayloadError: The text is no JSON, or does not fit the annotation; names the path.
    """
    return convert(parse(text, where=where), annotation, where=where)


def parse(text: str | None, *, where: str) -> Any:
    """Return the plain JSON value of a text; None stands for ``null``.

    Raises:
        PayloadError: The text is no JSON.
    """
    if text is None:
        return None
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        raise PayloadError(where, "$", f"the text is no JSON that can be read: {error}") from error
    except RecursionError as error:
        raise PayloadError(where, "$", "the text is nested too deeply to be read") from error


def convert(plain: Any, annotation: Any, *, where: str, path: str = "$") -> Any:
    """Return a plain JSON value as the annotation says.

    Args:
        plain: What ``parse`` gave.
        annotation: A resolved annotation.
        where: As for ``decode``.
        path: Place of ``plain`` inside the whole value, for the error.

    Raises:
        PayloadError: The value does not fit.
    """
    if annotation in _LOOSE or (type(plain) is annotation and annotation in (str, int, float, bool)):
        return plain
    try:
        return msgspec.convert(plain, annotation, dec_hook=_decode_custom)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise PayloadError(where, path + place.rstrip("`"), problem) from error
    except (TypeError, NotImplementedError, RecursionError) as error:
        raise PayloadError(where, path, f"the annotation {annotation!r} cannot be rebuilt: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# ``json.dumps`` and ``json.loads`` make one of these for each call that is not plain.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _to_plain(value: Any, depth: int, parents: list[int]) -> Any:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return _check_int(value)
    if kind is float:
        return _check_float(value)
    if depth > MAX_DEPTH:
        raise _too_deep(parents)
    parents.append(id(value))
    try:
        return _container_or_other(value, depth, parents)
    finally:
        parents.pop()


def _container_or_other(value: Any, depth: int, parents: list[int]) -> Any:
    kind = type(value)
    if kind is dict:
        return _mapping(value, depth, parents)
    if kind is list or kind is tuple:
        return _sequence(value, depth, parents)
    if isinstance(value, enum.Enum):
        return _to_plain(value.value, depth + 1, parents)
    if isinstance(value, str | int | float):
        return _base_value(value)
    if (text := _scalar(value)) is not None:
        return text
    return _object(value, depth, parents)


def _base_value(value: str | float) -> str | int | float:
    if isinstance(value, str):
        return str.__str__(value)
    return _check_int(int(value)) if isinstance(value, int) else _check_float(float(value))


def _object(value: Any, depth: int, parents: list[int]) -> Any:
    if _is_django_model(value):
        raise _Refused(f"a model instance ({type(value).__name__}) cannot be carried; pass its pk")
    if isinstance(value, list | tuple):
        return _sequence(value, depth, parents)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return _fields(value, names, names, depth, parents)
    if isinstance(value, msgspec.Struct):
        return _struct(value, depth, parents)
    if _is_pydantic_model(value):
        return _to_plain(_dump_pydantic(value), depth + 1, parents)
    if isinstance(value, Mapping):
        return _mapping(value, depth, parents)
    raise _Refused(_why_not(value))


def _scalar(value: object) -> str | None:
    match value:
        case dt.datetime():
            return _datetime_text(value)
        case dt.date():
            return dt.date.isoformat(value)
        case dt.time():
            return _time_text(value)
        case dt.timedelta():
            return _timedelta_text(value)
        case decimal.Decimal():
            if not value.is_finite():
                raise _Refused(f"Decimal {value} is not a finite number")
            return str(value)
        case uuid.UUID():
            return str(value)
        case _:
            return None


def _datetime_text(value: dt.datetime) -> str:
    offset = value.utcoffset()
    if offset is not None and offset % dt.timedelta(minutes=1):
        # RFC 3339 knows offsets of whole minutes only; the instant stays the same
        value = value.astimezone(_UTC)
    return dt.datetime.isoformat(value)


def _time_text(value: dt.time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise _Refused("a time in a zone without a fixed offset cannot be carried; pass a datetime, or a naive time")
    if value.tzinfo is not None and (value.utcoffset() or dt.timedelta(0)) % dt.timedelta(minutes=1):
        raise _Refused("a time whose offset is not whole minutes cannot be carried")
    return dt.time.isoformat(value)


def _timedelta_text(value: dt.timedelta) -> str:
    return str(msgspec.to_builtins(dt.timedelta(value.days, value.seconds, value.microseconds)))


def _check_int(value: int) -> int:
    if value.bit_length() >= _INT_BOUND_BITS and abs(value) >= _INT_BOUND:
        raise _Refused(f"the integer has more than {MAX_INT_DIGITS} digits")
    return value


def _check_float(value: float) -> float:
    if not math.isfinite(value):
        raise _Refused(f"{value!r} is not a finite number, which JSON cannot carry; pass None or text")
    return value


def _mapping(value: Mapping[Any, Any], depth: int, parents: list[int]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _Refused(f"the key {_clipped(key)} is a {type(key).__name__}; keys must be text")
        text = key if type(key) is str else _key_text(key)
        try:
            plain[text] = _to_plain(item, depth + 1, parents)
        except _Refused as refused:
            refused.segments.append(key_path(text))
            raise
    return plain


def _key_text(key: str) -> str:
    return str.__str__(key.value) if isinstance(key, enum.Enum) else str.__str__(key)


def _sequence(value: list[Any] | tuple[Any, ...], depth: int, parents: list[int]) -> list[Any]:
    plain: list[Any] = []
    for index, item in enumerate(value):
        try:
            plain.append(_to_plain(item, depth + 1, parents))
        except _Refused as refused:
            refused.segments.append(f"[{index}]")
            raise
    return plain


def _struct(value: msgspec.Struct, depth: int, parents: list[int]) -> Any:
    config = value.__struct_config__
    names = value.__struct_fields__
    if config.array_like:
        tag = [config.tag] if config.tag is not None else []
        return _sequence(tag + [getattr(value, name) for name in names], depth, parents)
    plain = _fields(value, names, value.__struct_encode_fields__, depth, parents)
    return plain if config.tag is None else {str(config.tag_field): config.tag, **plain}


def _fields(
    value: object, names: tuple[str, ...] | list[str], keys: tuple[str, ...] | list[str], depth: int, parents: list[int]
) -> dict[str, Any]:
    present = {key: getattr(value, name, msgspec.UNSET) for name, key in zip(names, keys, strict=True)}
    return _mapping({key: item for key, item in present.items() if item is not msgspec.UNSET}, depth, parents)


def _too_deep(parents: list[int]) -> _Refused:
    for index, parent in enumerate(parents):
        if parent in parents[:index]:
            return _Refused("the value contains itself", depth=index)
    return _Refused(f"the value is nested deeper than {MAX_DEPTH} levels")


def _is_django_model(value: object) -> bool:
    return hasattr(type(value), "_meta") and hasattr(value, "pk")


def _why_not(value: object) -> str:
    name = type(value).__name__
    match value:
        case bytes() | bytearray() | memoryview():
            return f"{name} cannot be carried by JSON; pass text, for example base64"
        case set() | frozenset():
            return f"a {name} has no order; pass a sorted list"
        case type():
            return f"the class {value.__qualname__} cannot be carried; pass a value"
        case _ if hasattr(value, "values_list"):
            return f"a {name} cannot be carried; pass a list of primary keys"
        case _ if callable(value):
            return f"a {name} cannot be carried; pass the values it needs"
        case _:
            return f"a {name} cannot be carried by JSON; pass plain values, or make it a dataclass"


def _clipped(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def key_path(key: str) -> str:
    """Return the segment of a path that stands for a key."""
    return f".{key}" if key.isidentifier() else f"[{_clipped(key)}]"


# --- pydantic, which is never imported before somebody hands over one of its models ---


def _base_model() -> Any:
    pydantic = sys.modules.get("pydantic")
    return getattr(pydantic, "BaseModel", None)


def _is_pydantic_model(value: object) -> bool:
    base = _base_model()
    return base is not None and isinstance(value, base)


def _is_pydantic_class(kind: object) -> bool:
    base = _base_model()
    return base is not None and isinstance(kind, type) and issubclass(kind, base)


def _validates_by_name() -> bool:
    pydantic = sys.modules["pydantic"]
    return tuple(int(part) for part in pydantic.VERSION.split(".")[:2]) >= (2, 11)


def _dump_pydantic(value: Any) -> Any:
    # before 2.11 a model with aliases can only be read back by alias
    try:
        return value.model_dump(mode="json", by_alias=not _validates_by_name(), round_trip=True)
    except ValueError as error:
        raise _Refused(f"the pydantic model {type(value).__name__} cannot be dumped: {error}") from error


def _decode_custom(kind: type[Any], plain: Any) -> Any:
    if not _is_pydantic_class(kind):
        raise NotImplementedError(f"{kind!r} is no type that JSON can be turned into")
    names = {"by_alias": True, "by_name": True} if _validates_by_name() else {}
    try:
        return kind.model_validate(plain, **names)
    except ValueError as error:
        raise ValueError(f"does not fit {kind.__name__}: {error}") from error


# --- what goes out typed and comes back as text ---


def lossy_kinds(value: object) -> frozenset[str]:
    """Return the names of the classes inside a value that JSON turns into something plainer."""
    found: set[str] = set()
    _collect_lossy(value, found, 0)
    return frozenset(found)


def _collect_lossy(value: object, found: set[str], depth: int) -> None:
    if value is None or type(value) in (str, int, float, bool) or depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for item in value.values():
            _collect_lossy(item, found, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect_lossy(item, found, depth + 1)
    elif not isinstance(value, str | int | float) or isinstance(value, enum.Enum):
        found.add(type(value).__name__)
        for item in _parts_of(value):
            _collect_lossy(item, found, depth + 1)


def _parts_of(value: object) -> list[object]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return []


def has_warned(where: str) -> bool:
    """Tell whether nothing more is logged about a place. After a thousand places nothing is logged at all."""
    return where in _warned_places or len(_warned_places) >= _MAX_WARNED_PLACES


def warn_of_lost_kinds(sent: object, received: object, *, where: str) -> None:
    """Log, once per place, the kinds of values that went out but came back as text or plain objects.

    That happens under ``dict``, ``Any`` or no annotation.

    Args:
        sent: What user code gave.
        received: What decoding its text gave.
        where: The step, workflow or signal.
    """
    if received == sent or has_warned(where):
        return
    lost = lossy_kinds(sent) - lossy_kinds(received)
    if not lost:
        return
    _warned_places.add(where)
    _logger.warning(
        "%s: %s arrives as plain JSON, because the annotation does not name it; annotate it to get it back as it was",
        where,
        ", ".join(sorted(lost)),
    )


# --- annotations ---


def annotation_problem(annotation: Any) -> str | None:
    """Return why values cannot be rebuilt under an annotation, or None when they can."""
    if annotation in _LOOSE or annotation is None:
        return None
    try:
        msgspec.json.Decoder(annotation, dec_hook=_decode_custom)
        described = msgspec.inspect.type_info(annotation)
    except (TypeError, NotImplementedError, NameError) as error:
        return str(error)
    return _unsupported_part(described, set())


def _unsupported_part(node: Any, seen: set[int]) -> str | None:
    if id(node) in seen:
        return None
    seen.add(id(node))
    match node:
        case msgspec.inspect.CustomType(cls=cls):
            return None if _is_pydantic_class(cls) else _custom_problem(cls)
        case msgspec.inspect.BytesType() | msgspec.inspect.ByteArrayType() | msgspec.inspect.MemoryViewType():
            return "bytes cannot be carried by JSON; use str, for example base64"
        case msgspec.inspect.SetType() | msgspec.inspect.FrozenSetType():
            return "a set has no order; use list"
        case msgspec.inspect.DictType(key_type=key) if not _is_text_key(key):
            return "keys of a mapping must be text"
    for part in _parts_of_type(node):
        if (problem := _unsupported_part(part, seen)) is not None:
            return problem
    return None


def _custom_problem(cls: type[Any]) -> str:
    name = getattr(cls, "__qualname__", repr(cls))
    if hasattr(cls, "_meta"):
        return f"{name} is a model; pass its pk"
    return f"{name} cannot be rebuilt from JSON; use plain types, a dataclass, a TypedDict or a pydantic model"


def _is_text_key(key: Any) -> bool:
    match key:
        case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
            return True
        case msgspec.inspect.EnumType(cls=cls):
            return issubclass(cls, str)
        case msgspec.inspect.LiteralType(values=values):
            return all(isinstance(each, str) for each in values)
        case _:
            return False


def _parts_of_type(node: Any) -> list[Any]:
    names = ("item_type", "key_type", "value_type", "type")
    parts = [part for name in names if (part := getattr(node, name, None)) is not None]
    parts.extend(getattr(node, "item_types", ()))
    parts.extend(getattr(node, "types", ()))
    parts.extend(field.type for field in getattr(node, "fields", ()))
    return parts


def is_loose(annotation: Any) -> bool:
    """Tell whether an annotation leaves a part of the value untyped, so that its kinds may get lost."""
    if annotation in _LOOSE or annotation in (dict, list, tuple):
        return True
    if annotation is None or get_origin(annotation) is Literal:
        return False
    if dataclasses.is_dataclass(annotation) or hasattr(annotation, "__annotations__"):
        return False
    return any(is_loose(part) for part in get_args(annotation) if part is not Ellipsis)
