"""The context of a body: plans, handed to the shell through the body that runs them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from durable.authoring.context import Context, GatherMode, MapMode
from durable.authoring.refs import Call, Ref
from durable.core.durations import Duration
from durable.core.errors import OperationRefused
from durable.replay.body import CoroutineBody, GreenletBody
from durable.replay.operations import Answer, StepCall
from durable.replay.plans import Plan, Planner, plain_ref

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the shell lends to a body.

    Attributes:
        now: The time, from the clock that all instances agree on.
        uuid: A random UUID.
        random: A random number.
        instant_us: Turns an aware datetime into microseconds since the epoch.
        guard: Raises ``OperationRefused`` where an operation must not be called now.
        limit_bytes: Upper bound of each payload.
    """

    now: Callable[[], datetime]
    uuid: Callable[[], UUID]
    random: Callable[[], float]
    instant_us: Callable[[datetime], int]
    guard: Callable[[str], None]
    limit_bytes: int | None


class BodyContext(Context):
    """The operations of one run, for the body that it belongs to."""

    def __init__(self, run_id: str, attempt: int, surroundings: Surroundings) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._surroundings = surroundings
        self._plan = Planner(run_id=run_id, limit_bytes=surroundings.limit_bytes)
        self._replaying = True
        self._log = _QuietLogger(self)
        self.body: GreenletBody | CoroutineBody | None = None

    @property
    def run_id(self) -> str:
        """Return the id of this run."""
        return self._run_id

    @property
    def attempt(self) -> int:
        """Return how often this run was begun: 1, and one more for each retry and each recovery.

        It changes between replays, so a body must not decide anything by it.
        """
        return self._attempt

    @property
    def is_replaying(self) -> bool:
        """Tell whether the body is still catching up with its history."""
        return self._replaying

    @is_replaying.setter
    def is_replaying(self, value: bool) -> None:
        self._replaying = value

    @property
    def next_seq(self) -> int:
        """Return the position of the next operation."""
        return self._plan.next_seq

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return a logger that carries the run id and is silent during replay."""
        return self._log

    def _do(self, label: str, make: Callable[P, Plan[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        body = self.body
        if not isinstance(body, GreenletBody):
            raise OperationRefused(label, "the body is an async function", f"Await ctx.a{label[4:]} instead.")
        body.enter(label)
        self._surroundings.guard(label)
        plan = self._make(make, *args, **kwargs)
        return self._read(plan, body.ask(plan.operation))

    async def _ado(self, label: str, make: Callable[P, Plan[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        body = self.body
        if not isinstance(body, CoroutineBody):
            raise OperationRefused(f"ctx.a{label[4:]}", "the body is a plain function", f"Call {label} instead.")
        body.enter(label)
        self._surroundings.guard(label)
        plan = self._make(make, *args, **kwargs)
        return self._read(plan, await body.ask_later(plan.operation))

    def _make(self, make: Callable[P, Plan[T]], *args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        """Return the plan of an operation; one that cannot be planned takes no position."""
        before = self._plan.next_seq
        try:
            return make(*args, **kwargs)
        except BaseException:
            self._plan.next_seq = before
            raise

    def _read(self, plan: Plan[T], answer: Answer) -> T:
        self._replaying = answer.replayed
        return plan.read(answer)

    def step(self, ref: Ref[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Dispatch a step to a worker and return its result."""
        return self._do("ctx.step", self._plan.step, ref, args, kwargs)

    async def astep(self, ref: Ref[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Dispatch a step to a worker and return its result."""
        return await self._ado("ctx.step", self._plan.step, ref, args, kwargs)

    def step_by_name(self, name: str, input: Any = None, *, returns: Any = Any, **options: Any) -> Any:
        """Dispatch a step whose code lives elsewhere and return its result."""
        return self._do("ctx.step_by_name", self._plan.step_by_name, name, input, returns, options)

    async def astep_by_name(self, name: str, input: Any = None, *, returns: Any = Any, **options: Any) -> Any:
        """Dispatch a step whose code lives elsewhere and return its result."""
        return await self._ado("ctx.step_by_name", self._plan.step_by_name, name, input, returns, options)

    def local_step(self, name: str, function: Callable[..., Any] | Ref[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in this process and keep its result."""
        return self._do("ctx.local_step", self._plan.local, name, function, args, kwargs)

    async def alocal_step(
        self, name: str, function: Callable[..., Any] | Ref[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a function in this process and keep its result."""
        return await self._ado("ctx.local_step", self._plan.local, name, function, args, kwargs)

    def gather(self, *calls: Call[Any], mode: GatherMode = "wait_all") -> tuple[Any, ...]:
        """Make several calls at once and return their results in the order of the operands."""
        return self._do("ctx.gather", self._plan.gather, calls, mode) if calls else ()

    async def agather(self, *calls: Call[Any], mode: GatherMode = "wait_all") -> tuple[Any, ...]:
        """Make several calls at once and return their results in the order of the operands."""
        return await self._ado("ctx.gather", self._plan.gather, calls, mode) if calls else ()

    def map(
        self, ref: Ref[..., Any], inputs: Iterable[Any], *, window: int = 10, mode: MapMode = "fail_fast"
    ) -> Iterator[Any]:
        """Call a step once per input and yield the results in the order of the inputs."""
        under_way = _Window(self._plan, ref, inputs, window)
        while under_way.is_open():
            if under_way.has_waiting():
                self._do("ctx.map", under_way.fill)
            yield self._do("ctx.map", under_way.next_result, mode)

    async def amap(
        self, ref: Ref[..., Any], inputs: Iterable[Any], *, window: int = 10, mode: MapMode = "fail_fast"
    ) -> AsyncIterator[Any]:
        """Call a step once per input and yield the results in the order of the inputs."""
        under_way = _Window(self._plan, ref, inputs, window)
        while under_way.is_open():
            if under_way.has_waiting():
                await self._ado("ctx.map", under_way.fill)
            yield await self._ado("ctx.map", under_way.next_result, mode)

    def sleep(self, duration: Duration) -> None:
        """Wait this long, holding no thread."""
        self._do("ctx.sleep", self._plan.sleep, duration)

    async def asleep(self, duration: Duration) -> None:
        """Wait this long, holding no thread."""
        await self._ado("ctx.sleep", self._plan.sleep, duration)

    def sleep_until(self, instant: datetime) -> None:
        """Wait until an instant, holding no thread."""
        self._do("ctx.sleep_until", self._plan.sleep_until, self._aware(instant))

    async def asleep_until(self, instant: datetime) -> None:
        """Wait until an instant, holding no thread."""
        await self._ado("ctx.sleep_until", self._plan.sleep_until, self._aware(instant))

    def _aware(self, instant: datetime) -> int:
        if instant.tzinfo is None:
            raise ValueError("sleep_until() needs an aware datetime, such as ctx.now() + timedelta(days=1)")
        return self._surroundings.instant_us(instant)

    def wait_for_signal(self, *tokens: str, type: Any = Any, timeout: Duration | None = None) -> tuple[str, Any]:
        """Wait for the first signal of any of the tokens; one that came earlier counts."""
        return self._do("ctx.wait_for_signal", self._plan.signal, tokens, type, timeout)

    async def await_for_signal(self, *tokens: str, type: Any = Any, timeout: Duration | None = None) -> tuple[str, Any]:
        """Wait for the first signal of any of the tokens; one that came earlier counts."""
        return await self._ado("ctx.wait_for_signal", self._plan.signal, tokens, type, timeout)

    def now(self) -> datetime:
        """Return the time as it was when the body first came here."""
        return self._do("ctx.now", self._plan.record, "now", self._surroundings.now, datetime)

    async def anow(self) -> datetime:
        """Return the time as it was when the body first came here."""
        return await self._ado("ctx.now", self._plan.record, "now", self._surroundings.now, datetime)

    def uuid(self) -> UUID:
        """Return a random UUID that stays the same in every replay."""
        return self._do("ctx.uuid", self._plan.record, "uuid", self._surroundings.uuid, UUID)

    async def auuid(self) -> UUID:
        """Return a random UUID that stays the same in every replay."""
        return await self._ado("ctx.uuid", self._plan.record, "uuid", self._surroundings.uuid, UUID)

    def random(self) -> float:
        """Return a random number that stays the same in every replay."""
        return self._do("ctx.random", self._plan.record, "random", self._surroundings.random, float)

    async def arandom(self) -> float:
        """Return a random number that stays the same in every replay."""
        return await self._ado("ctx.random", self._plan.record, "random", self._surroundings.random, float)

    def side_effect(self, function: Callable[[], T], *, returns: Any = None) -> T:
        """Run a small function once and keep its result."""
        return self._do("ctx.side_effect", self._side_effect, function, returns)

    async def aside_effect(self, function: Callable[[], T], *, returns: Any = None) -> T:
        """Run a small function once and keep its result."""
        return await self._ado("ctx.side_effect", self._side_effect, function, returns)

    def _side_effect(self, function: Callable[[], T], returns: Any) -> Plan[T]:
        annotation = plain_ref(function).binding.returns if returns is None else returns
        return self._plan.record("side_effect", function, annotation, user_code=True)

    def transaction(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in a transaction of the store's database that also commits its result."""
        return self._do("ctx.transaction", self._plan.transaction, name, function, args, kwargs)

    async def atransaction(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in a transaction of the store's database that also commits its result."""
        return await self._ado("ctx.transaction", self._plan.transaction, name, function, args, kwargs)


class _Window:
    """The calls of one ``map`` that are under way."""

    def __init__(self, planner: Planner, target: Ref[..., Any], inputs: Iterable[Any], size: int) -> None:
        if size < 1:
            raise ValueError("map() needs a window of at least 1")
        self._planner = planner
        self._target = target
        self._inputs = iter(inputs)
        self._size = size
        self._under_way: deque[tuple[StepCall, Call[Any]]] = deque()
        self._waiting = list(islice(self._inputs, size))
        self._group: int | None = None

    def is_open(self) -> bool:
        return bool(self._under_way or self._waiting)

    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def fill(self) -> Plan[None]:
        calls = tuple(Call(ref=self._target, args=(value,), kwargs={}) for value in self._waiting)
        if self._group is None:
            self._group = self._planner.next_seq
        dispatch, steps = self._planner.begin(calls, self._group)
        self._under_way.extend(zip(steps, calls, strict=True))
        self._waiting = []
        return dispatch

    def next_result(self, mode: MapMode) -> Plan[Any]:
        step, call = self._under_way.popleft()
        self._waiting = list(islice(self._inputs, 1))
        return self._planner.finish(step, call, mode)


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Passes lines on once: not while the body only catches up with its history."""

    def __init__(self, context: BodyContext) -> None:
        super().__init__(logging.getLogger("durable.workflow"), {"run_id": context.run_id})
        self._context = context

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # the name is the standard library's
        return not self._context.is_replaying and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
