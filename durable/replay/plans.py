"""Operations as plans: what to ask the shell, and how to read its answer. Sync and async bodies share them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from durable.authoring import codec
from durable.authoring.context import GatherMode
from durable.authoring.options import StepOptions, change_options
from durable.authoring.outcomes import Failed, Ok
from durable.authoring.refs import Call, Ref, ref
from durable.core.durations import Duration, parse_duration, to_us
from durable.core.errors import (
    ControlFlow,
    OperationRefused,
    PayloadError,
    StepFailed,
    StepTimeout,
    WaitTimeout,
)
from durable.core.failure import Failure
from durable.core.ids import check_name
from durable.core.states import CheckpointKind
from durable.replay.operations import (
    Answer,
    AwaitSignal,
    AwaitSteps,
    CallSteps,
    Operation,
    Outcome,
    Position,
    RecordValue,
    RunLocal,
    RunTransaction,
    Sleep,
    StepCall,
)

T = TypeVar("T")
STEP_TIMEOUT = "step_timeout"
WAIT_TIMEOUT = "wait_timeout"


class StoredValueUnreadable(ControlFlow):
    """A stored value does not fit the annotation that the code has now; the run stays until the code fits."""

    def __init__(self, problem: PayloadError) -> None:
        self.problem = problem
        super().__init__(str(problem))


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """An operation with the way to read its answer.

    Attributes:
        operation: What the shell is asked.
        read: Turns the answer into what the body gets, or raises what the body gets.
    """

    operation: Operation
    read: Callable[[Answer], T]


@dataclass(slots=True)
class Planner:
    """Makes the plans of one body; it counts the positions.

    Attributes:
        run_id: For errors.
        limit_bytes: Upper bound of each payload.
        next_seq: The position of the next operation.
    """

    run_id: str
    limit_bytes: int | None
    next_seq: int = field(default=0)

    def position(self, name: str, kind: CheckpointKind) -> Position:
        """Take the next position."""
        position = Position(seq=self.next_seq, name=name, kind=kind)
        self.next_seq += 1
        return position

    def local(
        self, name: str, function: Callable[..., Any] | Ref[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Plan[Any]:
        """Plan ``local_step``."""
        check_name("step", name)
        target = function if isinstance(function, Ref) else plain_ref(function)
        where = f"step {name!r}"
        encoded = target.binding.encode_arguments(args, kwargs, where=where, limit_bytes=self.limit_bytes)
        options = getattr(target, "config", None) or StepOptions()
        operation = RunLocal(
            at=self.position(name, CheckpointKind.LOCAL),
            input=encoded,
            call=lambda: target.function(*args, **kwargs),
            encode=lambda value: target.binding.encode_result(value, where=where, limit_bytes=self.limit_bytes),
            policy=options.retry_policy,
        )
        return Plan(operation, lambda answer: self._value(name, answer.only, target.binding.returns))

    def transaction(
        self, name: str, function: Callable[..., Any] | Ref[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Plan[Any]:
        """Plan ``transaction``."""
        check_name("step", name)
        target = function if isinstance(function, Ref) else plain_ref(function)
        if target.is_async:
            raise OperationRefused("ctx.transaction", f"{name!r} is an async function", "Give it a plain function.")
        where = f"transaction {name!r}"
        encoded = target.binding.encode_arguments(args, kwargs, where=where, limit_bytes=self.limit_bytes)
        operation = RunTransaction(
            at=self.position(name, CheckpointKind.TRANSACTION),
            input=encoded,
            call=lambda: target.function(*args, **kwargs),
            encode=lambda value: target.binding.encode_result(value, where=where, limit_bytes=self.limit_bytes),
            policy=(getattr(target, "config", None) or StepOptions()).retry_policy,
        )
        return Plan(operation, lambda answer: self._value(name, answer.only, target.binding.returns))

    def record(self, name: str, produce: Callable[[], T], returns: Any, *, user_code: bool = False) -> Plan[T]:
        """Plan ``now``, ``uuid``, ``random`` and ``side_effect``."""
        where = f"{name}"
        operation = RecordValue(
            at=self.position(name, CheckpointKind.SIDE_EFFECT),
            produce=lambda: self._produce(produce, returns, where),
            user_code=user_code,
        )
        return Plan(operation, lambda answer: self._value(name, answer.only, returns))

    def _produce(self, produce: Callable[[], Any], returns: Any, where: str) -> str:
        text = codec.encode(produce(), where=where, limit_bytes=self.limit_bytes)
        codec.decode(text, returns, where=where)
        return text

    def step(self, target: Ref[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan[Any]:
        """Plan ``step``."""
        call = self.step_call(Call(ref=target, args=args, kwargs=kwargs))
        return self._single(call, target.binding.returns)

    def step_by_name(self, name: str, value: Any, returns: Any, options: dict[str, Any]) -> Plan[Any]:
        """Plan ``step_by_name``."""
        check_name("step", name)
        where = f"step {name!r}"
        config = change_options(StepOptions(), options, where=where)
        encoded = codec.encode(value, where=where, limit_bytes=self.limit_bytes)
        return self._single(self._call(name, encoded, config, None), returns)

    def _single(self, call: StepCall, returns: Any) -> Plan[Any]:
        operation = CallSteps(calls=(call,), mode="wait_all")
        return Plan(operation, lambda answer: self._value(call.at.name, answer.only, returns))

    def gather(self, calls: tuple[Call[Any], ...], mode: GatherMode) -> Plan[tuple[Any, ...]]:
        """Plan ``gather``."""
        group = self.next_seq
        steps = tuple(self.step_call(call, group) for call in calls)
        operation = CallSteps(calls=steps, mode=mode)
        return Plan(operation, lambda answer: self.read_all(steps, calls, mode, answer))

    def begin(self, calls: tuple[Call[Any], ...], group: int) -> tuple[Plan[None], tuple[StepCall, ...]]:
        """Plan the dispatch of calls that are waited for later.

        Args:
            calls: The calls.
            group: The position of the first call of those that belong together.
        """
        steps = tuple(self.step_call(call, group) for call in calls)
        return Plan(CallSteps(calls=steps, mode=None), lambda _: None), steps

    def finish(self, step: StepCall, call: Call[Any], mode: GatherMode) -> Plan[Any]:
        """Plan the wait for a call that was dispatched before."""
        operation = AwaitSteps(calls=(step,), mode=mode)
        return Plan(operation, lambda answer: self.read_all((step,), (call,), mode, answer)[0])

    def step_call(self, call: Call[Any], group: int | None = None) -> StepCall:
        """Turn a call into a dispatch at the next position."""
        target = call.ref
        if target.kind != "step":
            raise OperationRefused(
                f"dispatching {target.name!r}",
                f"it is a {target.kind}, which no worker serves by name",
                "Declare it with @step, or run it here with ctx.local_step.",
            )
        where = f"step {target.name!r}"
        encoded = target.binding.encode_arguments(call.args, call.kwargs, where=where, limit_bytes=self.limit_bytes)
        return self._call(target.name, encoded, getattr(target, "config", None) or StepOptions(), group)

    def _call(self, name: str, encoded: str, config: StepOptions, group: int | None) -> StepCall:
        return StepCall(
            at=self.position(name, CheckpointKind.REMOTE),
            input=encoded,
            queue=config.queue or name,
            partition=config.partition,
            policy=config.retry_policy,
            timeout=config.timeout,
            pickup_timeout=config.pickup_timeout,
            priority=config.priority,
            parallel_group=group,
        )

    def read_all(
        self, steps: tuple[StepCall, ...], calls: tuple[Call[Any], ...], mode: GatherMode, answer: Answer
    ) -> tuple[Any, ...]:
        """Read the answer to a wait for several calls."""
        outcomes = {outcome.seq: outcome for outcome in answer.outcomes}
        if mode == "settled":
            return tuple(
                self._settled(step, outcomes[step.at.seq], call) for step, call in zip(steps, calls, strict=True)
            )
        failed = [outcome for outcome in answer.outcomes if outcome.failure is not None]
        if failed:
            first = min(failed, key=settled_first) if mode == "fail_fast" else failed[0]
            names = {step.at.seq: step.at.name for step in steps}
            raise error_of(names[first.seq], first)
        return tuple(
            self._value(step.at.name, outcomes[step.at.seq], call.ref.binding.returns)
            for step, call in zip(steps, calls, strict=True)
        )

    def _settled(self, step: StepCall, outcome: Outcome, call: Call[Any]) -> Ok[Any] | Failed:
        if outcome.failure is not None:
            return Failed(error_of(step.at.name, outcome))
        return Ok(self._value(step.at.name, outcome, call.ref.binding.returns))

    def sleep(self, duration: Duration) -> Plan[None]:
        """Plan ``sleep``."""
        delay_us = to_us(parse_duration(duration))
        return Plan(Sleep(at=self.position("sleep", CheckpointKind.SLEEP), delay_us=delay_us), lambda _: None)

    def sleep_until(self, instant_us: int) -> Plan[None]:
        """Plan ``sleep_until``."""
        position = self.position("sleep_until", CheckpointKind.SLEEP)
        return Plan(Sleep(at=position, until_us=instant_us), lambda _: None)

    def signal(self, tokens: tuple[str, ...], annotation: Any, timeout: Duration | None) -> Plan[tuple[str, Any]]:
        """Plan ``wait_for_signal``."""
        if not tokens:
            raise OperationRefused("ctx.wait_for_signal", "no token was given", "Name at least one token.")
        for token in tokens:
            check_name("token", token)
        operation = AwaitSignal(
            at=self.position("|".join(tokens)[:255], CheckpointKind.SIGNAL),
            tokens=tokens,
            timeout_us=None if timeout is None else to_us(parse_duration(timeout)),
        )
        return Plan(operation, lambda answer: self._signalled(operation, annotation, answer.only))

    def _signalled(self, operation: AwaitSignal, annotation: Any, outcome: Outcome) -> tuple[str, Any]:
        if outcome.failure is not None:
            raise WaitTimeout(operation.tokens, operation.at.seq)
        taken = json.loads(outcome.output or "null")
        where = f"signal {taken['signal']!r}"
        return taken["signal"], codec.convert(taken["payload"], annotation, where=where)

    def _value(self, name: str, outcome: Outcome, annotation: Any) -> Any:
        if outcome.failure is not None:
            raise error_of(name, outcome)
        try:
            return codec.decode(outcome.output, annotation, where=f"{name!r}")
        except PayloadError as problem:
            raise StoredValueUnreadable(problem) from problem


def settled_first(outcome: Outcome) -> float:
    """Return a key by which what was settled first comes first, in every replay alike."""
    return math.inf if outcome.settled_order is None else outcome.settled_order


def error_of(name: str, outcome: Outcome) -> StepFailed:
    """Return the exception that a body gets for a failed operation."""
    failure = outcome.failure or Failure(kind="Unknown")
    kind = StepTimeout if failure.code == STEP_TIMEOUT else StepFailed
    return kind(name, failure.code, failure.message, failure.attempts or 1, outcome.seq)


@lru_cache(maxsize=1024)
def plain_ref(function: Callable[..., Any]) -> Ref[..., Any]:
    """Return the reference of a plain function; looked up once for each function."""
    return ref(function)
