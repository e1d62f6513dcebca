"""What a workflow body can do. The replay implements it; users annotate with it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from durable.authoring.options import StepOptionArguments
from durable.authoring.outcomes import Failed, Ok
from durable.authoring.refs import Call, Ref
from durable.core.durations import Duration

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")

Raising = Literal["wait_all", "fail_fast"]
GatherMode = Literal["wait_all", "fail_fast", "settled"]
MapMode = Literal["fail_fast", "settled"]


class Context(ABC):
    """Carry the durable operations of one run.

    Every operation takes the next position of the run's history. The first time it does its work and records the
    outcome; in a replay it gives the recorded outcome. An operation may be called only by the body itself: not inside a
    step, inside ``transaction.atomic()``, from another thread, or after the turn ended (``OperationRefused``).

    Operations without a prefix are for plain bodies; those with the prefix ``a`` are awaited in ``async def`` bodies.
    """

    @abstractmethod
    def step(self, ref: Ref[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Dispatch a step to a worker and return its result.

        Args:
            ref: A step, with options where wanted: ``charge_card.options(queue="payments")``.
            *args: Arguments of the step.
            **kwargs: Arguments of the step.

        Raises:
            StepFailed: The step failed for good.
            StepTimeout: No worker took it, or its worker went silent, for too long.
            PayloadError: An argument cannot be carried, or does not fit its annotation.
        """

    @overload
    @abstractmethod
    def step_by_name(
        self, name: str, input: Any = None, *, returns: type[T], **options: Unpack[StepOptionArguments]
    ) -> T: ...

    @overload
    @abstractmethod
    def step_by_name(
        self, name: str, input: Any = None, *, returns: Any = ..., **options: Unpack[StepOptionArguments]
    ) -> Any: ...

    @abstractmethod
    def step_by_name(
        self,
        name: str,
        input: Any = None,  # what the wire calls it
        *,
        returns: Any = Any,
        **options: Unpack[StepOptionArguments],
    ) -> Any:
        """Dispatch a step whose code lives elsewhere and return its result.

        Args:
            name: Name of the step, as its workers announce it.
            input: The step's whole input: any value that JSON can carry.
            returns: Annotation of the result; without it the plain JSON value is returned.
            **options: See ``StepOptions``.

        Raises:
            StepFailed: The step failed for good.
            StepTimeout: No worker took it, or its worker went silent, for too long.
            PayloadError: The input cannot be carried, or the result does not fit ``returns``.
        """

    @overload
    @abstractmethod
    def local_step(self, name: str, function: Ref[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    @abstractmethod
    def local_step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    @abstractmethod
    def local_step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @abstractmethod
    def local_step(self, name: str, function: Callable[..., Any] | Ref[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in this process and keep its result.

        Args:
            name: Name of the step in the run's history.
            function: A function, a step, or ``ref(function, retries=…, compensate=…)``.
            *args: Arguments of the function.
            **kwargs: Arguments of the function.

        Raises:
            StepFailed: The function failed for good.
            PayloadError: The result cannot be carried, or does not fit its annotation.
        """

    @overload
    @abstractmethod
    def gather(self, call1: Call[R1], /, *, mode: Raising = "wait_all") -> tuple[R1]: ...

    @overload
    @abstractmethod
    def gather(self, call1: Call[R1], /, *, mode: Literal["settled"]) -> tuple[Ok[R1] | Failed]: ...

    @overload
    @abstractmethod
    def gather(self, call1: Call[R1], call2: Call[R2], /, *, mode: Raising = "wait_all") -> tuple[R1, R2]: ...

    @overload
    @abstractmethod
    def gather(
        self, call1: Call[R1], call2: Call[R2], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed]: ...

    @overload
    @abstractmethod
    def gather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], /, *, mode: Raising = "wait_all"
    ) -> tuple[R1, R2, R3]: ...

    @overload
    @abstractmethod
    def gather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed]: ...

    @overload
    @abstractmethod
    def gather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], call4: Call[R4], /, *, mode: Raising = "wait_all"
    ) -> tuple[R1, R2, R3, R4]: ...

    @overload
    @abstractmethod
    def gather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], call4: Call[R4], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed]: ...

    @overload
    @abstractmethod
    def gather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        /,
        *,
        mode: Raising = "wait_all",
    ) -> tuple[R1, R2, R3, R4, R5]: ...

    @overload
    @abstractmethod
    def gather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        /,
        *,
        mode: Literal["settled"],
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed, Ok[R5] | Failed]: ...

    @overload
    @abstractmethod
    def gather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        call6: Call[R6],
        /,
        *,
        mode: Raising = "wait_all",
    ) -> tuple[R1, R2, R3, R4, R5, R6]: ...

    @overload
    @abstractmethod
    def gather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        call6: Call[R6],
        /,
        *,
        mode: Literal["settled"],
    ) -> tuple[
        Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed, Ok[R5] | Failed, Ok[R6] | Failed
    ]: ...

    @overload
    @abstractmethod
    def gather(self, *calls: Call[R], mode: Raising = "wait_all") -> tuple[R, ...]: ...

    @overload
    @abstractmethod
    def gather(self, *calls: Call[R], mode: Literal["settled"]) -> tuple[Ok[R] | Failed, ...]: ...

    @abstractmethod
    def gather(self, *calls: Call[Any], mode: GatherMode = "wait_all") -> tuple[Any, ...]:
        """Make several calls at once and return their results in the order of the operands.

        Args:
            *calls: Calls of steps or workflows, as ``charge_card.call(order_id=7)`` gives them.
            mode: ``wait_all`` waits for every operand, then raises the first failure; ``fail_fast`` raises as soon as
                one operand failed for good; ``settled`` raises nothing and gives ``Ok`` or ``Failed`` for each.

        Raises:
            StepFailed: A step failed for good.
            PayloadError: An argument cannot be carried.
        """

    @overload
    @abstractmethod
    def map(
        self,
        ref: Ref[Concatenate[T, ...], R],
        inputs: Iterable[T],
        *,
        window: int = 10,
        mode: Literal["fail_fast"] = ...,
    ) -> Iterator[R]: ...

    @overload
    @abstractmethod
    def map(
        self, ref: Ref[Concatenate[T, ...], R], inputs: Iterable[T], *, window: int = 10, mode: Literal["settled"]
    ) -> Iterator[Ok[R] | Failed]: ...

    @abstractmethod
    def map(
        self, ref: Ref[..., Any], inputs: Iterable[Any], *, window: int = 10, mode: MapMode = "fail_fast"
    ) -> Iterator[Any]:
        """Call a step once per input and yield the results in the order of the inputs.

        Args:
            ref: A step whose first parameter takes the input.
            inputs: Inputs; read as they are needed, so they must come out the same in every replay.
            window: How many calls may be under way at once.
            mode: ``fail_fast`` raises at the first input that failed for good; ``settled`` yields ``Ok`` or ``Failed``.

        Raises:
            StepFailed: A step failed for good.
        """

    @abstractmethod
    def sleep(self, duration: Duration) -> None:
        """Wait this long, holding no thread; survives restarts and deploys.

        Args:
            duration: A timedelta, a number of seconds, or text such as ``"7d"``.

        Raises:
            InvalidDuration: It is no duration.
        """

    @abstractmethod
    def sleep_until(self, instant: datetime) -> None:
        """Wait until an instant, holding no thread; an instant in the past does not wait.

        Args:
            instant: An aware datetime.

        Raises:
            ValueError: The datetime is naive.
        """

    @overload
    @abstractmethod
    def wait_for_signal(self, *tokens: str, type: type[T], timeout: Duration | None = None) -> tuple[str, T]: ...

    @overload
    @abstractmethod
    def wait_for_signal(self, *tokens: str, type: Any = ..., timeout: Duration | None = None) -> tuple[str, Any]: ...

    @abstractmethod
    def wait_for_signal(
        self,
        *tokens: str,
        type: Any = Any,  # reads as what it is at the call
        timeout: Duration | None = None,
    ) -> tuple[str, Any]:
        """Wait for the first signal of any of the tokens; one that came earlier counts.

        Args:
            *tokens: One or more tokens.
            type: Annotation of the payload; without it the plain JSON value is returned.
            timeout: How long to wait; None waits for ever.

        Returns:
            The token that was signalled, and the payload.

        Raises:
            WaitTimeout: Nothing came in time.
            PayloadError: The payload does not fit ``type``.
            InvalidName: A token is empty, too long, or holds control characters.
        """

    @abstractmethod
    def now(self) -> datetime:
        """Return the time, aware and in UTC, as it was when the body first came here."""

    @abstractmethod
    def uuid(self) -> UUID:
        """Return a random UUID that stays the same in every replay."""

    @abstractmethod
    def random(self) -> float:
        """Return a number from 0 (inclusive) to 1 (exclusive) that stays the same in every replay."""

    @abstractmethod
    def side_effect(self, function: Callable[[], T], *, returns: Any = ...) -> T:
        """Run a small function once and keep its result; for reading something that may change. It is not retried.

        Args:
            function: Takes nothing; a failure is recorded, and raised as ``StepFailed`` in every replay.
            returns: Annotation of the result; needed for a lambda that returns something else than plain JSON.

        Raises:
            PayloadError: The result cannot be carried, or does not fit its annotation.
        """

    @abstractmethod
    def transaction(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a transaction of the store's database that also commits its result: exactly once.

        Args:
            name: Name of the step in the run's history.
            function: Writes to the store's database only; a write to another alias raises.
            *args: Arguments of the function.
            **kwargs: Arguments of the function.

        Raises:
            StepFailed: The function failed; nothing that it wrote remains.
            PayloadError: The result cannot be carried, or does not fit its annotation.
        """

    @abstractmethod
    async def anow(self) -> datetime:
        """Return the time, as it was when the body first came here; see ``now``."""

    @abstractmethod
    async def auuid(self) -> UUID:
        """Return a random UUID that stays the same in every replay; see ``uuid``."""

    @abstractmethod
    async def arandom(self) -> float:
        """Return a number that stays the same in every replay; see ``random``."""

    @abstractmethod
    async def aside_effect(self, function: Callable[[], T], *, returns: Any = ...) -> T:
        """Run a small function once and keep its result; see ``side_effect``."""

    @abstractmethod
    async def atransaction(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a transaction that also commits its result; see ``transaction``."""

    @property
    @abstractmethod
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return a logger that carries the run id and is silent during replay."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Return the id of this run."""

    @property
    @abstractmethod
    def attempt(self) -> int:
        """Return how often this run was begun: 1, and one more for each retry and each recovery.

        It changes between replays, so a body must not decide anything by it.
        """

    @property
    @abstractmethod
    def is_replaying(self) -> bool:
        """Tell whether the body is still catching up with its history."""

    @abstractmethod
    async def astep(self, ref: Ref[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Dispatch a step to a worker and return its result; see ``step``."""

    @overload
    @abstractmethod
    async def astep_by_name(
        self, name: str, input: Any = None, *, returns: type[T], **options: Unpack[StepOptionArguments]
    ) -> T: ...

    @overload
    @abstractmethod
    async def astep_by_name(
        self, name: str, input: Any = None, *, returns: Any = ..., **options: Unpack[StepOptionArguments]
    ) -> Any: ...

    @abstractmethod
    async def astep_by_name(
        self,
        name: str,
        input: Any = None,  # what the wire calls it
        *,
        returns: Any = Any,
        **options: Unpack[StepOptionArguments],
    ) -> Any:
        """Dispatch a step whose code lives elsewhere and return its result; see ``step_by_name``."""

    @overload
    @abstractmethod
    async def alocal_step(self, name: str, function: Ref[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    @abstractmethod
    async def alocal_step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    @abstractmethod
    async def alocal_step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @abstractmethod
    async def alocal_step(
        self, name: str, function: Callable[..., Any] | Ref[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a function in this process and keep its result; see ``local_step``."""

    @overload
    @abstractmethod
    async def agather(self, call1: Call[R1], /, *, mode: Raising = "wait_all") -> tuple[R1]: ...

    @overload
    @abstractmethod
    async def agather(self, call1: Call[R1], /, *, mode: Literal["settled"]) -> tuple[Ok[R1] | Failed]: ...

    @overload
    @abstractmethod
    async def agather(self, call1: Call[R1], call2: Call[R2], /, *, mode: Raising = "wait_all") -> tuple[R1, R2]: ...

    @overload
    @abstractmethod
    async def agather(
        self, call1: Call[R1], call2: Call[R2], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed]: ...

    @overload
    @abstractmethod
    async def agather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], /, *, mode: Raising = "wait_all"
    ) -> tuple[R1, R2, R3]: ...

    @overload
    @abstractmethod
    async def agather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed]: ...

    @overload
    @abstractmethod
    async def agather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], call4: Call[R4], /, *, mode: Raising = "wait_all"
    ) -> tuple[R1, R2, R3, R4]: ...

    @overload
    @abstractmethod
    async def agather(
        self, call1: Call[R1], call2: Call[R2], call3: Call[R3], call4: Call[R4], /, *, mode: Literal["settled"]
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed]: ...

    @overload
    @abstractmethod
    async def agather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        /,
        *,
        mode: Raising = "wait_all",
    ) -> tuple[R1, R2, R3, R4, R5]: ...

    @overload
    @abstractmethod
    async def agather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        /,
        *,
        mode: Literal["settled"],
    ) -> tuple[Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed, Ok[R5] | Failed]: ...

    @overload
    @abstractmethod
    async def agather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        call6: Call[R6],
        /,
        *,
        mode: Raising = "wait_all",
    ) -> tuple[R1, R2, R3, R4, R5, R6]: ...

    @overload
    @abstractmethod
    async def agather(
        self,
        call1: Call[R1],
        call2: Call[R2],
        call3: Call[R3],
        call4: Call[R4],
        call5: Call[R5],
        call6: Call[R6],
        /,
        *,
        mode: Literal["settled"],
    ) -> tuple[
        Ok[R1] | Failed, Ok[R2] | Failed, Ok[R3] | Failed, Ok[R4] | Failed, Ok[R5] | Failed, Ok[R6] | Failed
    ]: ...

    @overload
    @abstractmethod
    async def agather(self, *calls: Call[R], mode: Raising = "wait_all") -> tuple[R, ...]: ...

    @overload
    @abstractmethod
    async def agather(self, *calls: Call[R], mode: Literal["settled"]) -> tuple[Ok[R] | Failed, ...]: ...

    @abstractmethod
    async def agather(self, *calls: Call[Any], mode: GatherMode = "wait_all") -> tuple[Any, ...]:
        """Make several calls at once; see ``gather``."""

    @overload
    @abstractmethod
    def amap(
        self,
        ref: Ref[Concatenate[T, ...], R],
        inputs: Iterable[T],
        *,
        window: int = 10,
        mode: Literal["fail_fast"] = ...,
    ) -> AsyncIterator[R]: ...

    @overload
    @abstractmethod
    def amap(
        self, ref: Ref[Concatenate[T, ...], R], inputs: Iterable[T], *, window: int = 10, mode: Literal["settled"]
    ) -> AsyncIterator[Ok[R] | Failed]: ...

    @abstractmethod
    def amap(
        self, ref: Ref[..., Any], inputs: Iterable[Any], *, window: int = 10, mode: MapMode = "fail_fast"
    ) -> AsyncIterator[Any]:
        """Call a step once per input and yield the results in the order of the inputs; see ``map``."""

    @abstractmethod
    async def asleep(self, duration: Duration) -> None:
        """Wait this long, holding no thread; survives restarts and deploys; see ``sleep``."""

    @abstractmethod
    async def asleep_until(self, instant: datetime) -> None:
        """Wait until an instant, holding no thread; an instant in the past does not wait; see ``sleep_until``."""

    @overload
    @abstractmethod
    async def await_for_signal(
        self,
        *tokens: str,
        type: type[T],
        timeout: Duration | None = None,  # a durable deadline, not the loop's
    ) -> tuple[str, T]: ...

    @overload
    @abstractmethod
    async def await_for_signal(
        self,
        *tokens: str,
        type: Any = ...,
        timeout: Duration | None = None,  # a durable deadline, not the loop's
    ) -> tuple[str, Any]: ...

    @abstractmethod
    async def await_for_signal(
        self,
        *tokens: str,
        type: Any = Any,  # reads as what it is at the call
        timeout: Duration | None = None,  # a durable deadline, not the loop's
    ) -> tuple[str, Any]:
        """Wait for the first signal of any of the tokens; one that came earlier counts; see ``wait_for_signal``."""
