"""How a function's arguments and result become the one JSON input and output of a run or step.

A function with one parameter takes the input whole; with several they are one object by parameter name; with none the
input is ``null``. The shape in use is stored, so that a parameter with a default added later still binds old inputs.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from durable.authoring import codec
from durable.core.errors import ConfigurationError, PayloadError

Shape = Literal["none", "single", "object"]

_NAMELESS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Turn calls of one function into JSON and back.

    Attributes:
        name: What the function is called in messages.
        signature: Its parameters, without the context.
        annotations: Resolved annotation of each parameter.
        returns: Resolved annotation of the result.
        problem: Why values cannot be rebuilt, naming the parameter; None when all is well.
        shape: How inputs are written.
        positions: The parameters in order, where each can be given by position; else empty.
        loose: Parameters whose annotation leaves a part of the value untyped.
    """

    name: str
    signature: inspect.Signature
    annotations: Mapping[str, Any]
    returns: Any
    problem: str | None
    shape: Shape
    positions: tuple[str, ...]
    loose: tuple[str, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip_context: bool, name: str) -> Binding:
        """Read a function.

        Args:
            function: The function behind a step or a workflow.
            skip_context: Whether the first parameter is the context and no input.
            name: What to call it in messages.

        Raises:
            ConfigurationError: It has ``*args`` or ``**kwargs``, no context where one is needed, or no signature.
        """
        parameters = _parameters_of(function, skip_context=skip_context, name=name)
        hints: dict[str, Any] = {}
        problems: list[str] = []
        for parameter in parameters:
            label = f"parameter {parameter.name!r}"
            hints[parameter.name] = _resolve(function, label, parameter.annotation, problems)
        returns = _resolve(function, "the result", inspect.signature(function).return_annotation, problems)
        return cls(
            name=name,
            signature=inspect.Signature(parameters),
            annotations=types.MappingProxyType(hints),
            returns=returns,
            problem="; ".join(problems) or None,
            shape="none" if not parameters else "single" if len(parameters) == 1 else "object",
            positions=tuple(each.name for each in parameters) if all(map(_takes_position, parameters)) else (),
            loose=tuple(each for each, annotation in hints.items() if codec.is_loose(annotation)),
        )

    def encode_arguments(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        where: str | None = None,
        limit_bytes: int | None = None,
    ) -> str:
        """Return the input of a call as JSON text, defaults filled in.

        Raises:
            TypeError: The arguments do not fit the function.
            PayloadError: A value cannot be carried.
            PayloadTooLarge: The input is over the limit.
            ConfigurationError: An annotation cannot be rebuilt.
        """
        self._require_sound()
        where = where or self.name
        arguments = self._bind(args, kwargs)
        match self.shape:
            case "none":
                return "null"
            case "single":
                value: Any = next(iter(arguments.values()))
            case _:
                value = arguments
        text = codec.encode(value, where=where, limit_bytes=limit_bytes)
        self._warn_of_lost_kinds(arguments, text, where)
        return text

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if not kwargs and len(args) == len(self.positions) == len(self.annotations):
            return dict(zip(self.positions, args, strict=True))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def decode_arguments(
        self, text: str | None, *, where: str | None = None, shape: Shape | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments that an input stands for.

        Args:
            text: JSON text of the input.
            where: The run or step, for errors.
            shape: The shape that was stored with the input; None takes the function's own.

        Raises:
            PayloadError: The input does not fit the function; names the parameter.
            ConfigurationError: An annotation cannot be rebuilt.
        """
        self._require_sound()
        where = where or self.name
        given = self._by_parameter(codec.parse(text, where=where), shape or self.shape, where)
        values = {name: self._convert(name, *each, where=where) for name, each in given.items()}
        self._require_all(values, where)
        positional = [
            values.pop(each.name)
            for each in self.signature.parameters.values()
            if each.kind is inspect.Parameter.POSITIONAL_ONLY and each.name in values
        ]
        return tuple(positional), values

    def check_input(self, text: str | None, *, where: str | None = None, shape: Shape | None = None) -> None:
        """Check an input against the annotations, before a body runs.

        Raises:
            PayloadError: The input does not fit the function; names the parameter.
            ConfigurationError: An annotation cannot be rebuilt.
        """
        self.decode_arguments(text, where=where, shape=shape)

    def encode_result(self, value: Any, *, where: str | None = None, limit_bytes: int | None = None) -> str:
        """Return a result as JSON text, checked against the annotation; see ``settle_result``."""
        return self.settle_result(value, where=where, limit_bytes=limit_bytes)[0]

    def decode_result(self, text: str | None, *, where: str | None = None) -> Any:
        """Return the result that JSON text stands for.

        Raises:
            PayloadError: The text does not fit the annotation.
            ConfigurationError: The annotation cannot be rebuilt.
        """
        self._require_sound()
        return codec.decode(text, self.returns, where=where or self.name)

    def settle_result(self, value: Any, *, where: str | None = None, limit_bytes: int | None = None) -> tuple[str, Any]:
        """Return a result as JSON text, and as what every reader of that text gets.

        A function annotated to return None stores ``null``, whatever it returned.

        Raises:
            PayloadError: The value cannot be carried, or does not fit the annotation.
            PayloadTooLarge: The text is over the limit.
            ConfigurationError: The annotation cannot be rebuilt.
        """
        self._require_sound()
        where = where or self.name
        if self.returns is None or self.returns is types.NoneType:
            return "null", None
        text = codec.encode(value, where=where, limit_bytes=limit_bytes)
        received = codec.decode(text, self.returns, where=where)
        codec.warn_of_lost_kinds(value, received, where=where)
        return text, received

    def _require_sound(self) -> None:
        if self.problem is not None:
            raise ConfigurationError(f"{self.name} cannot be used: {self.problem}")

    def _by_parameter(self, plain: Any, shape: Shape, where: str) -> dict[str, tuple[Any, str]]:
        if shape == "none":
            if plain is not None:
                raise PayloadError(where, "$", "the input must be null, because there are no parameters")
            return {}
        names = list(self.signature.parameters)
        if shape == "single":
            if not names:
                raise PayloadError(where, "$", "there is no parameter left that takes the stored input")
            return {names[0]: (plain, "$")}
        if plain is None:
            return {}
        if not isinstance(plain, dict):
            raise PayloadError(where, "$", f"the input must be an object with the keys {', '.join(names)}")
        for key in plain:
            if key not in self.signature.parameters:
                raise PayloadError(where, "$" + codec.key_path(key), f"there is no parameter {key!r}")
        return {key: (value, "$" + codec.key_path(key)) for key, value in plain.items()}

    def _convert(self, name: str, plain: Any, path: str, *, where: str) -> Any:
        return codec.convert(plain, self.annotations[name], where=f"{where}, parameter {name!r}", path=path)

    def _require_all(self, values: Mapping[str, Any], where: str) -> None:
        for parameter in self.signature.parameters.values():
            if parameter.name not in values and parameter.default is inspect.Parameter.empty:
                raise PayloadError(where, "$", f"the input has no value for parameter {parameter.name!r}")

    def _warn_of_lost_kinds(self, arguments: Mapping[str, Any], text: str, where: str) -> None:
        if not self.loose or codec.has_warned(where) or not codec.lossy_kinds(arguments):
            return
        plain = codec.parse(text, where=where)
        for name, (value, path) in self._by_parameter(plain, self.shape, where).items():
            if name in self.loose:
                received = self._convert(name, value, path, where=where)
                codec.warn_of_lost_kinds(arguments[name], received, where=where)


def _takes_position(parameter: inspect.Parameter) -> bool:
    return parameter.kind is not inspect.Parameter.KEYWORD_ONLY


def _parameters_of(function: Callable[..., Any], *, skip_context: bool, name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{name} has no signature that can be read; wrap it in a function.") from error
    if skip_context:
        if not parameters or parameters[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise ConfigurationError(f"{name} needs the context as its first parameter: def {name}(ctx: Context, …).")
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind in _NAMELESS:
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise ConfigurationError(
                f"{name} takes {stars}{parameter.name}, which has no fixed place in the stored input; "
                f"name each parameter, or take one list or dict."
            )
    return parameters


def _resolve(function: Callable[..., Any], label: str, annotation: Any, problems: list[str]) -> Any:
    if annotation is inspect.Parameter.empty:
        return codec.MISSING
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        resolved = typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"]
    except Exception as error:  # noqa: BLE001  # an annotation is an expression and may raise anything; a system check reports it
        problems.append(f"{label}: its annotation {annotation!r} cannot be resolved ({error})")
        return codec.MISSING
    if (problem := codec.annotation_problem(resolved)) is not None:
        problems.append(f"{label}: {problem}")
    return resolved
