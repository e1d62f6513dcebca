"""Fail-points: calls of store and transport have names, at which a test kills, stops or fails the process.

A point is ``<port>.<verb>#<n>:before`` or ``…:after``, where n counts the calls of that verb in this process from 1:
``store.record#2:after``, ``transport.send#1:before``. Two more lie beneath each verb: ``store.take_signal.commit#n``
around the COMMIT of a transaction of several statements (``before`` is inside it, with its locks held) and
``store.record.autocommit#n`` around a statement that commits alone. Production installs none of this; its ports are
bare.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durable.core.errors import ConfigurationError
from durable.engine.ports import install_watch
from durable.store.errors import ConnectionTrouble, TransientTrouble
from durable.store.seam import Row, Session, Statement
from durable.store.store import Store

VARIABLE = "DURABLE_FAILPOINTS"
"""The plan of a spawned process: ``point=action`` with semicolons between."""
RECORD_VARIABLE = "DURABLE_FAILPOINTS_RECORD"
"""The file to which a spawned process appends each point that it passes."""
BEFORE, AFTER = "before", "after"
TROUBLE = {trouble.__name__: trouble for trouble in (TransientTrouble, ConnectionTrouble)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call at one of its two points.

    Attributes:
        name: Port and verb, ``store.record``, and ``.commit`` or ``.autocommit`` for a point beneath the verb.
        number: Which call of this verb in this process it is.
        moment: ``before`` or ``after``.
        args: Its positional arguments.
        result: What it returned; ``None`` before.
    """

    name: str
    number: int
    moment: str
    args: tuple[Any, ...] = ()
    result: Any = None

    @property
    def point(self) -> str:
        """Return the name of the point."""
        return f"{self.name}#{self.number}:{self.moment}"


Observer = Callable[[Call], None]
Action = Callable[[], None]


def parse_action(text: str) -> Action:
    """Return what to do at a point.

    Args:
        text: ``kill`` or ``stop`` (this process, by the signal that cannot be caught), ``raise:TransientTrouble``,
            ``raise:ConnectionTrouble``, ``raise-after`` (the call was made and its answer is lost) or
            ``sleep:<seconds>``; several with commas between them happen in turn.

    Raises:
        ConfigurationError: It is none of these.
    """
    if "," in text:
        actions = [parse_action(each) for each in text.split(",")]
        return lambda: _do_all(actions)
    kind, _, detail = text.partition(":")
    if kind == "kill" and not detail:
        return lambda: signal.pthread_kill(threading.get_ident(), signal.SIGKILL)
    if kind == "stop" and not detail:
        # Sent to this very thread, which therefore goes no step further.
        return lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    if kind == "raise" and detail in TROUBLE:
        return lambda: _raise(TROUBLE[detail]("a fail-point"))
    if kind == "raise-after" and not detail:
        return lambda: _raise(ConnectionTrouble("a fail-point: the answer is lost"))
    if kind == "sleep":
        with suppress(ValueError):
            seconds = float(detail)
            return lambda: time.sleep(seconds)
    raise ConfigurationError(f"a fail-point has no action {text!r}")


def _do_all(actions: Sequence[Action]) -> None:
    for action in actions:
        action()


def _raise(error: Exception) -> None:
    raise error


def parse_plan(text: str) -> dict[str, str]:
    """Read ``point=action;point=action``; a ``raise-after`` lies after its call whatever its point says.

    Raises:
        ConfigurationError: A point or an action is not written as one.
    """
    plan: dict[str, str] = {}
    for entry in filter(None, (each.strip() for each in text.split(";"))):
        point, _, action = entry.partition("=")
        if "#" not in point or point.rpartition(":")[2] not in {BEFORE, AFTER}:
            raise ConfigurationError(f"a fail-point is written port.verb#n:before or :after, not {point!r}")
        parse_action(action)
        if action == "raise-after":
            point = f"{point.rpartition(':')[0]}:{AFTER}"
        plan[point] = action
    return plan


class Failpoints:
    """Counts and names calls, does what the plan says at them, and tells observers of all.

    Args:
        plan: Actions by point.
        record: The file to which each point that is passed is appended, with the monotonic time in nanoseconds.
        observers: Told of each call before the plan is carried out.
    """

    def __init__(
        self, plan: Mapping[str, str] | None = None, record: Path | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        self.plan = dict(plan or {})
        self.observers = list(observers)
        self._record = record
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._current = threading.local()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Failpoints | None:
        """Return what the environment asks for, or ``None`` when it asks for nothing.

        Raises:
            ConfigurationError: The plan cannot be read.
        """
        plan, record = environment.get(VARIABLE), environment.get(RECORD_VARIABLE)
        if not plan and not record:
            return None
        return cls(parse_plan(plan or ""), Path(record) if record else None)

    def install(self) -> None:
        """Stand between the engine and its ports; engines that were made before are not touched."""
        install_watch(self.watch)

    def watch(self, name: str, port: Any) -> Any:
        """Return a port whose calls are points."""
        if isinstance(port, Store):
            port.session = WatchedSession(port.session, self)
            return WatchedPort(name, port, self, frozenset(Store.verbs()))
        return WatchedPort(name, port, self, frozenset({"stage", "send"}))

    @property
    def current(self) -> str:
        """Return the verb that this thread is in."""
        return getattr(self._current, "name", "session")

    def begin(self, name: str) -> int:
        """Count a call."""
        with self._lock:
            self._counts[name] += 1
            return self._counts[name]

    def reach(self, call: Call) -> None:
        """Pass a point: tell, note, and do what the plan says."""
        for observer in self.observers:
            observer(call)
        if self._record is not None:
            append_line(self._record, f"{time.monotonic_ns()} {call.point}")
        action = self.plan.get(call.point)
        if action is not None:
            if self._record is not None:
                append_line(self._record, f"{time.monotonic_ns()} !{call.point}")
            parse_action(action)()

    def around(self, name: str, args: tuple[Any, ...], work: Callable[[], Any]) -> Any:
        """Make a call between its two points."""
        number = self.begin(name)
        outer = self.current
        self._current.name = name
        try:
            self.reach(Call(name=name, number=number, moment=BEFORE, args=args))
            result = work()
        finally:
            self._current.name = outer
        self.reach(Call(name=name, number=number, moment=AFTER, args=args, result=result))
        return result


class WatchedPort:
    """A port whose verbs are points; everything else is passed on."""

    def __init__(self, name: str, port: Any, failpoints: Failpoints, verbs: frozenset[str]) -> None:
        self._name = name
        self._port = port
        self._failpoints = failpoints
        self._verbs = verbs

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._port, attribute)
        if attribute not in self._verbs:
            return value
        name = f"{self._name}.{attribute}"
        return lambda *args, **kwargs: self._failpoints.around(name, args, lambda: value(*args, **kwargs))


class WatchedSession:
    """The seam, with points around each commit; everything else is passed on."""

    def __init__(self, session: Session, failpoints: Failpoints) -> None:
        self._session = session
        self._failpoints = failpoints
        self._open = threading.local()

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._session, attribute)

    def execute(self, statement: Statement, params: Mapping[str, Any]) -> Sequence[Row]:
        """Run one statement; a point if it commits alone."""

        def work() -> Sequence[Row]:
            return self._session.execute(statement, params)

        if not statement.writes or self._is_open() or self._session.in_transaction():
            return work()
        rows: Sequence[Row] = self._failpoints.around(f"{self._failpoints.current}.autocommit", (), work)
        return rows

    def transaction(self) -> AbstractContextManager[None]:
        """Open a transaction whose COMMIT is a point, or join the open one."""
        return self._committing(self._session.transaction)

    def atomic(self) -> AbstractContextManager[None]:
        """Open the ORM's transaction; its COMMIT is a point."""
        return self._committing(self._session.atomic)

    def _is_open(self) -> bool:
        return getattr(self._open, "depth", 0) > 0

    @contextmanager
    def _committing(self, open_transaction: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        if self._is_open():
            with open_transaction():
                yield
            return
        name = f"{self._failpoints.current}.commit"
        number = 0
        self._open.depth = 1
        try:
            with open_transaction():
                yield
                number = self._failpoints.begin(name)
                self._failpoints.reach(Call(name=name, number=number, moment=BEFORE))
        finally:
            self._open.depth = 0
        self._failpoints.reach(Call(name=name, number=number, moment=AFTER))


def append_line(path: Path, text: str) -> None:
    """Append a line in one write, so that the lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def install_from_environment() -> Failpoints | None:
    """Install what the environment of this process asks for.

    Raises:
        ConfigurationError: The plan cannot be read.
    """
    failpoints = Failpoints.from_environment(os.environ)
    if failpoints is not None:
        failpoints.install()
    return failpoints
