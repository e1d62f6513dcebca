"""The options of steps and workflows, checked where they are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, get_args

from durable.core.backoff import Backoff, BackoffKind
from durable.core.durations import Duration, parse_duration
from durable.core.errors import ConfigurationError, InvalidDuration, InvalidName, nearest
from durable.core.ids import check_name
from durable.core.retry import RetryPolicy

Options = TypeVar("Options", "StepOptions", "WorkflowOptions")

MAX_PRIORITY = 1_048_575
"""Priorities lie between minus and plus this, so that every transport can carry them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """Say how a step is executed.

    Attributes:
        retries: Further attempts after the first one, 3 by default; 0 means one attempt in all.
        backoff: How the wait grows: ``exponential`` (default), ``linear`` or ``fixed``.
        backoff_base: Wait after the first failed attempt, 500 ms by default.
        backoff_max: Upper bound of every wait, 30 s by default.
        jitter: Whether each wait is drawn between zero and the computed one; True by default.
        timeout: How long a worker may be silent before the attempt counts as failed; None waits for ever.
        pickup_timeout: How long a dispatched step may lie in its queue; None waits for ever.
        queue: Routing token that serves the step; None means its name.
        priority: Higher first, where the transport orders by it (``db`` does not); None leaves it to the run.
        requires: Capabilities that a worker must announce.
        partition: Suffix of the routing token; None means the run's namespace.
        limit: Name of a limit in ``DURABLE["LIMITS"]``.
        compensate: A function or step that undoes this one when the run fails or is cancelled.
    """

    retries: int = 3
    backoff: BackoffKind = "exponential"
    backoff_base: timedelta = timedelta(milliseconds=500)
    backoff_max: timedelta = timedelta(seconds=30)
    jitter: bool = True
    timeout: timedelta | None = None
    pickup_timeout: timedelta | None = None
    queue: str | None = None
    priority: int | None = None
    requires: tuple[str, ...] = ()
    partition: str | None = None
    limit: str | None = None
    compensate: Callable[..., Any] | None = None

    @property
    def retry_policy(self) -> RetryPolicy:
        """Return how often to try, and the waits between."""
        backoff = Backoff(kind=self.backoff, base=self.backoff_base, maximum=self.backoff_max, jitter=self.jitter)
        return RetryPolicy(retries=self.retries, backoff=backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOptions:
    """Say how a workflow is registered and how its runs start.

    Attributes:
        version: Version of the body, ``"1"`` by default. A run replays on the version it began with.
        tags: Tags of every run.
        execution_timeout: How long a run may take from its start to its end; None sets no limit.
        priority: Higher first, where the transport orders by it (``db`` does not); 0 by default.
        namespace: The pool whose instances drive the run; None takes the setting ``NAMESPACE``.
        using: Database alias of the store; None takes the setting ``DATABASE``.
    """

    version: str = "1"
    tags: tuple[str, ...] = ()
    execution_timeout: timedelta | None = None
    priority: int = 0
    namespace: str | None = None
    using: str | None = None


class StepOptionArguments(TypedDict, total=False):
    """Name the keyword arguments that change ``StepOptions``, as users may write them."""

    retries: int
    backoff: BackoffKind
    backoff_base: Duration
    backoff_max: Duration
    jitter: bool
    timeout: Duration | None
    pickup_timeout: Duration | None
    queue: str | None
    priority: int | None
    requires: Iterable[str]
    partition: str | None
    limit: str | None
    compensate: Callable[..., Any] | None


class WorkflowOptionArguments(TypedDict, total=False):
    """Name the keyword arguments that change ``WorkflowOptions``, as users may write them."""

    version: str
    tags: Iterable[str]
    execution_timeout: Duration | None
    priority: int
    namespace: str | None
    using: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    accepts: str
    read: Callable[[Any], Any] = field(repr=False)


def _read_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def _read_priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_PRIORITY:
        raise ValueError
    return value


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _read_backoff(value: Any) -> str:
    if value not in get_args(BackoffKind):
        raise ValueError
    return str(value)


def _read_name(value: Any) -> str:
    return check_name("name", value)


def _read_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError
    return tuple(_read_name(each) for each in value)


def _read_callable(value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise ValueError
    return value  # type: ignore[no-any-return]  # callable() narrows to a callable of unknown type


def _or_none(rule: _Rule) -> _Rule:
    return _Rule(accepts=f"{rule.accepts}, or None", read=lambda value: None if value is None else rule.read(value))


_DURATION = _Rule(accepts="a timedelta, a number of seconds, or text such as '30s'", read=parse_duration)
_COUNT = _Rule(accepts="a whole number from 0", read=_read_count)
_PRIORITY = _Rule(accepts=f"a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}", read=_read_priority)
_FLAG = _Rule(accepts="True or False", read=_read_flag)
_NAME = _Rule(accepts="text of 1 to 255 characters without control characters", read=_read_name)
_NAMES = _Rule(accepts="a list of texts of 1 to 255 characters", read=_read_names)
_CALLABLE = _Rule(accepts="a function or a step", read=_read_callable)
_BACKOFF = _Rule(accepts="'fixed', 'linear' or 'exponential'", read=_read_backoff)

_STEP_RULES: Mapping[str, _Rule] = {
    "retries": _COUNT,
    "backoff": _BACKOFF,
    "backoff_base": _DURATION,
    "backoff_max": _DURATION,
    "jitter": _FLAG,
    "timeout": _or_none(_DURATION),
    "pickup_timeout": _or_none(_DURATION),
    "queue": _or_none(_NAME),
    "priority": _or_none(_PRIORITY),
    "requires": _NAMES,
    "partition": _or_none(_NAME),
    "limit": _or_none(_NAME),
    "compensate": _or_none(_CALLABLE),
}

_WORKFLOW_RULES: Mapping[str, _Rule] = {
    "version": _NAME,
    "tags": _NAMES,
    "execution_timeout": _or_none(_DURATION),
    "priority": _PRIORITY,
    "namespace": _or_none(_NAME),
    "using": _or_none(_NAME),
}

_RULES: dict[type[Any], Mapping[str, _Rule]] = {StepOptions: _STEP_RULES, WorkflowOptions: _WORKFLOW_RULES}


def change_options(options: Options, given: Mapping[str, Any], *, where: str) -> Options:
    """Return a copy of options with others in place.

    Args:
        options: What to start from.
        given: Option names and values.
        where: What is declared, for the error.

    Raises:
        ConfigurationError: An option is unknown, or its value is not accepted.
    """
    rules = _RULES[type(options)]
    changes = {name: _read(rules, name, value, where) for name, value in given.items()}
    return dataclasses.replace(options, **changes)


def _read(rules: Mapping[str, _Rule], name: str, value: Any, where: str) -> Any:
    rule = rules.get(name)
    if rule is None:
        close = nearest(name, rules)
        hint = f"Did you mean {close!r}?" if close else f"Known options: {', '.join(sorted(rules))}."
        raise ConfigurationError(f"{where}: unknown option {name!r}. {hint}")
    try:
        return rule.read(value)
    except (ValueError, TypeError, InvalidDuration, InvalidName) as error:
        raise ConfigurationError(f"{where}: option {name}={value!r} is not accepted; give {rule.accepts}.") from error
