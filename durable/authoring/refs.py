"""References to steps, workflows and plain functions: what operations and callers hold.

A reference carries the function's parameters and result in its type, so that type checkers find a wrong argument.
Options hang on the reference, never among the user's own parameters.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from durable.authoring.binding import Binding
from durable.authoring.driver import get_driver
from durable.authoring.naming import default_name
from durable.authoring.options import (
    StepOptionArguments,
    StepOptions,
    WorkflowOptionArguments,
    WorkflowOptions,
    change_options,
)
from durable.core.ids import check_name, check_run_id

if TYPE_CHECKING:
    from durable.authoring.context import Context
    from durable.authoring.handles import Run

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Ref(Generic[P, R_co]):
    """Refer to something that can be executed durably.

    Attributes:
        function: The function behind it.
        binding: How its arguments and result become JSON.
        is_async: Whether the function is an ``async def``.
    """

    kind = "function"
    takes_context = False

    def __init__(self, function: Callable[..., Any], *, name: str | None = None) -> None:
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self._given_name = None if name is None else check_name(self.kind, name)
        self.__wrapped__ = function
        self.__module__ = getattr(function, "__module__", None) or ""
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.__qualname__: str = getattr(function, "__qualname__", self.__name__)
        self.__doc__ = function.__doc__
        self.binding = Binding.of(function, skip_context=self.takes_context, name=name or self.__name__)

    @property
    def name(self) -> str:
        """Return the given name, or ``"<app label>.<function name>"``."""
        if self._given_name is None:
            self._given_name = default_name(self.function)
        return self._given_name

    @property
    def has_given_name(self) -> bool:
        """Tell whether the name is known without asking for an app label."""
        return self._given_name is not None

    @property
    def origin(self) -> str:
        """Return ``module:qualname`` of the function."""
        return f"{self.__module__}:{self.__qualname__}"

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """Return the call without making it: an operand for ``ctx.gather``."""
        return Call(ref=self, args=args, kwargs=kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class _StepRef(Ref[P, R_co]):
    def __init__(self, function: Callable[..., Any], *, name: str | None = None, config: StepOptions) -> None:
        super().__init__(function, name=name)
        self.config = config

    def options(self, **options: Unpack[StepOptionArguments]) -> Self:
        """Return a copy with other options.

        Raises:
            ConfigurationError: An option is unknown, or its value is not accepted.
        """
        other = copy.copy(self)
        other.config = change_options(self.config, options, where=f"{self.kind} {self.binding.name}")
        return other


class Step(_StepRef[P, R_co]):
    """Refer to a step that is a plain function."""

    kind = "step"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function itself, at once and not durably."""
        result: R_co = self.function(*args, **kwargs)
        return result


class AsyncStep(_StepRef[P, R_co]):
    """Refer to a step that is an ``async def``."""

    kind = "step"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Return the function's own coroutine, which does nothing durable."""
        coroutine: Coroutine[Any, Any, R_co] = self.function(*args, **kwargs)
        return coroutine


class FunctionRef(_StepRef[P, R_co]):
    """Refer to a plain function with options, for ``ctx.local_step``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function itself, at once and not durably; of an ``async def``, return the coroutine."""
        return self.function(*args, **kwargs)


class Workflow(Ref[P, R_co]):
    """Refer to a workflow."""

    kind = "workflow"
    takes_context = True

    def __init__(self, function: Callable[..., Any], *, name: str | None = None, config: WorkflowOptions) -> None:
        super().__init__(function, name=name)
        self.config = config

    @property
    def version(self) -> str:
        """Return the version that this reference starts."""
        return self.config.version

    def options(self, **options: Unpack[WorkflowOptionArguments]) -> Self:
        """Return a copy with other options; ``version`` pins another registered version.

        Raises:
            ConfigurationError: An option is unknown, or its value is not accepted.
        """
        other = copy.copy(self)
        other.config = change_options(self.config, options, where=f"workflow {self.binding.name}")
        return other

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Create a run and return at once.

        Inside ``transaction.atomic()`` the run is created in that transaction.

        Raises:
            PayloadError: An argument cannot be carried, or does not fit its annotation.
            ConfigurationError: durable is not in INSTALLED_APPS.
        """
        return self._start(None, args, kwargs)

    def start_as(self, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Create a run with an id of your own; starting an id twice gives the existing run.

        Raises:
            InvalidRunId: The id is empty, too long, or holds control characters.
            RunIdConflict: The id belongs to a run of another workflow.
            PayloadError: An argument cannot be carried, or does not fit its annotation.
            ConfigurationError: durable is not in INSTALLED_APPS.
        """
        return self._start(check_run_id(run_id), args, kwargs)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Create a run and return at once; see ``start``."""
        return await self._astart(None, args, kwargs)

    async def astart_as(self, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Create a run with an id of your own; see ``start_as``."""
        return await self._astart(check_run_id(run_id), args, kwargs)

    def _start(self, run_id: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Run[R_co]:
        return get_driver().start(self, args, kwargs, run_id=run_id, using=self.config.using)

    async def _astart(self, run_id: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Run[R_co]:
        return await get_driver().astart(self, args, kwargs, run_id=run_id, using=self.config.using)


class SyncWorkflow(Workflow[P, R_co]):
    """Refer to a workflow whose body is a plain function."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the body itself with any context, for unit tests."""
        result: R_co = self.function(ctx, *args, **kwargs)
        return result


class AsyncWorkflow(Workflow[P, R_co]):
    """Refer to a workflow whose body is an ``async def``."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Return the body's own coroutine with any context, for unit tests."""
        coroutine: Coroutine[Any, Any, R_co] = self.function(ctx, *args, **kwargs)
        return coroutine


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[R_co]):
    """Hold a call that has not been made.

    Attributes:
        ref: What to call.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    ref: Ref[..., R_co]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@overload
def ref(function: Step[P, R] | AsyncStep[P, R], /, **options: Unpack[StepOptionArguments]) -> FunctionRef[P, R]: ...


@overload
def ref(
    function: Callable[P, Coroutine[Any, Any, R]], /, **options: Unpack[StepOptionArguments]
) -> FunctionRef[P, R]: ...


@overload
def ref(function: Callable[P, R], /, **options: Unpack[StepOptionArguments]) -> FunctionRef[P, R]: ...


def ref(function: Callable[..., Any], /, **options: Unpack[StepOptionArguments]) -> FunctionRef[..., Any]:
    """Refer to a plain function, with options.

    Args:
        function: Any function with named parameters; of a step, its function and options are taken.
        **options: See ``StepOptions``.

    Raises:
        ConfigurationError: An option is unknown or its value is not accepted, or the function cannot be bound.
    """
    plain: Callable[..., Any] = function
    base = StepOptions()
    if isinstance(function, Step | AsyncStep):
        plain, base = function.function, function.config
    config = change_options(base, options, where=f"ref({getattr(plain, '__name__', plain)})")
    return FunctionRef(plain, config=config)
