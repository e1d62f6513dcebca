"""``@step`` and ``@workflow``, bare or with options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from durable.authoring.context import Context
from durable.authoring.naming import set_app_label_resolver
from durable.authoring.options import (
    StepOptionArguments,
    StepOptions,
    WorkflowOptionArguments,
    WorkflowOptions,
    change_options,
)
from durable.authoring.refs import AsyncStep, AsyncWorkflow, Ref, Step, SyncWorkflow, Workflow
from durable.authoring.registry import registry
from durable.core.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")


class StepDeclaration(StepOptionArguments, total=False):
    """Name the keyword arguments of ``@step``."""

    name: str | None


class WorkflowDeclaration(WorkflowOptionArguments, total=False):
    """Name the keyword arguments of ``@workflow``."""

    name: str | None


class StepDecorator(Protocol):
    """Turn a function into a step."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first match is meant
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...


class WorkflowDecorator(Protocol):
    """Turn a function into a workflow."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first match is meant
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncWorkflow[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> SyncWorkflow[P, R]: ...


@overload
def step(  # type: ignore[overload-overlap]  # the first match is meant
    function: Callable[P, Coroutine[Any, Any, R]], /
) -> AsyncStep[P, R]: ...


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...


@overload
def step(**options: Unpack[StepDeclaration]) -> StepDecorator: ...


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a step: work that is executed at least once, and whose result is kept.

    Args:
        function: A plain function or an ``async def`` with named parameters.
        **options: ``name``, by default ``"<app label>.<function name>"``, and the options of ``StepOptions``.

    Raises:
        ConfigurationError: An option is unknown or not accepted, another function has the name, or the function has
            ``*args`` or ``**kwargs``.
    """
    name = options.pop("name", None)

    def declare(function: Callable[..., Any]) -> Step[..., Any] | AsyncStep[..., Any]:
        _require_function("step", function)
        config = change_options(StepOptions(), options, where=f"@step {function.__name__}")
        kind: type[Step[..., Any] | AsyncStep[..., Any]]
        kind = AsyncStep if inspect.iscoroutinefunction(function) else Step
        declared = kind(function, name=name, config=config)
        registry.add_step(declared)
        return declared

    return declare if function is None else declare(function)


@overload
def workflow(  # type: ignore[overload-overlap]  # the first match is meant
    function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
) -> AsyncWorkflow[P, R]: ...


@overload
def workflow(function: Callable[Concatenate[Context, P], R], /) -> SyncWorkflow[P, R]: ...


@overload
def workflow(**options: Unpack[WorkflowDeclaration]) -> WorkflowDecorator: ...


def workflow(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a workflow: a body that is replayed from the results of its steps.

    Args:
        function: A plain function or an ``async def`` whose first parameter is the context.
        **options: ``name``, by default ``"<app label>.<function name>"``, and the options of ``WorkflowOptions``.

    Raises:
        ConfigurationError: An option is unknown or not accepted, another function has the name and version, or the
            function has ``*args`` or ``**kwargs``.
    """
    name = options.pop("name", None)

    def declare(function: Callable[..., Any]) -> Workflow[..., Any]:
        _require_function("workflow", function)
        config = change_options(WorkflowOptions(), options, where=f"@workflow {function.__name__}")
        kind: type[SyncWorkflow[..., Any] | AsyncWorkflow[..., Any]]
        kind = AsyncWorkflow if inspect.iscoroutinefunction(function) else SyncWorkflow
        declared = kind(function, name=name, config=config)
        registry.add_workflow(declared)
        return declared

    return declare if function is None else declare(function)


def _require_function(decorator: str, function: object) -> None:
    if isinstance(function, Ref):
        raise ConfigurationError(f"@{decorator} was applied to the {function.kind} {function.name!r}; apply it once.")
    if not inspect.isfunction(function):
        raise ConfigurationError(
            f"@{decorator} takes a function, not {function!r}. Options are given by name: @{decorator}(name=…)."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"@{decorator} {function.__name__}: a generator cannot be one; return a list.")


__all__ = ["set_app_label_resolver", "step", "workflow"]
