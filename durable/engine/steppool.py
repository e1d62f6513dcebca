"""The threads that execute dispatched steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from durable.authoring import codec
from durable.authoring.current import StepContext
from durable.core.errors import ControlFlow, MalformedMessage, StepNotRegistered
from durable.core.spawn import QueueEmpty, Thread
from durable.core.states import TERMINAL, CheckpointStatus
from durable.engine.beats import Beats
from durable.engine.engine import Engine
from durable.engine.execute import StepExecutor, lost_result
from durable.engine.leases import Holdings
from durable.engine.settle import AttemptResult, Settler
from durable.store.records import HeldMessage, Settled
from durable.wire import messages as wire
from durable.wire.messages import RemoteTask

FIRST_HANDBACK_US = 1_000_000
LONGEST_HANDBACK_US = 60_000_000
STOP = None
logger = logging.getLogger("durable.engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task to execute, and the row that carried it, if one did."""

    task: RemoteTask
    message: HeldMessage | None = None


class StopWorkingError(ControlFlow):
    """The instance stops, or lost its hold; what is not settled is taken again by another."""


class StepPool:
    """Executes step tasks and settles their results.

    Args:
        engine: Store, clock, threads and settings.
        executor: Runs the functions.
        settler: Stores the results.
        beats: Tells that steps are alive.
        holdings: What this instance holds.
        settled: Told what each settlement did, and the monotonic time before it was asked for.
        freed: Told when a place became free.
        size: How many threads.
    """

    def __init__(
        self,
        engine: Engine,
        executor: StepExecutor,
        settler: Settler,
        beats: Beats,
        holdings: Holdings,
        *,
        settled: Callable[[Settled, float], None],
        freed: Callable[[], None],
        size: int,
    ) -> None:
        ports = engine.ports
        self._ports = ports
        self._executor = executor
        self._settler = settler
        self._beats = beats
        self._holdings = holdings
        self._persistence = engine.persistence
        self._most_takes = engine.config.remote_redispatch_max
        self._settled = settled
        self._freed = freed
        self._size = size
        self._inbox = ports.spawn.queue()
        self._lock = ports.spawn.lock()
        self._active = 0
        self._started = False
        self._closing = False
        self._stopping = False
        self._handback_us: dict[str, int] = {}
        self._handles: list[Thread] = []

    def start(self) -> None:
        """Begin to execute; each thread is started by the first task for which no other waits.

        A task thus meets a thread whose connection stands and knows the statements, as long as there is one.
        """
        with self._lock:
            self._started = True
            self._add_threads()

    def _add_threads(self) -> None:
        while self._started and len(self._handles) < min(self._active, self._size):
            self._handles.append(self._ports.spawn.thread(f"durable-step-{len(self._handles)}", self._serve))

    def room(self) -> int:
        """Return how many more tasks may be taken now."""
        return 0 if self._closing else max(0, self._size - self._active)

    def is_idle(self) -> bool:
        """Tell whether nothing is being executed."""
        return self._active == 0

    def submit(self, message: HeldMessage) -> bool:
        """Execute the task of a held message; return whether it can be read here."""
        try:
            task = wire.decode(message.body, RemoteTask)
        except MalformedMessage as malformed:
            logger.error("A task cannot be read here: %s", malformed, extra={"message_id": message.id})
            return False
        self._put(Job(task=task, message=message))
        return True

    def submit_task(self, task: RemoteTask) -> None:
        """Execute a task that no row carried."""
        self._put(Job(task=task))

    def _put(self, job: Job) -> None:
        with self._lock:
            self._active += 1
            self._add_threads()
        self._inbox.put(job)

    def _serve(self) -> None:
        while (job := self._next()) is not STOP:
            try:
                self.run(job)
            except StopWorkingError:
                logger.info("A step result is left to others", extra={"step_id": job.task.step_id})
            except Exception:
                logger.exception("A step ended in an error of the engine", extra={"step_id": job.task.step_id})
            finally:
                self._done(job)
        self._ports.store.session.leave_thread()

    def _next(self) -> Job | None:
        while True:
            try:
                job: Job | None = self._inbox.get(60.0)
            except QueueEmpty:
                continue
            return job

    def _done(self, job: Job) -> None:
        with self._lock:
            self._active -= 1
        if job.message is not None:
            self._holdings.drop_message(job.message.id)
        self._freed()

    def run(self, job: Job) -> None:
        """Execute one task, unless its time is over, and settle its result."""
        message = job.message
        if message is not None and not self._is_wanted(job.task, message):
            return
        if message is not None and message.takes > self._most_takes:
            self.settle(lost_result(job.task, message.takes), message)
            return
        with self._beats.keep_beating(job.task):  # until the result is stored: who looks meanwhile must hear of it
            try:
                result = self._execute(job)
            except StepNotRegistered:
                self._hand_back(job)
                return
            self.settle(result, message)

    def _is_wanted(self, task: RemoteTask, message: HeldMessage) -> bool:
        over = (
            message.run_status is None
            or message.run_status in TERMINAL
            or message.checkpoint_status not in {CheckpointStatus.PENDING, CheckpointStatus.RUNNING}
            or message.checkpoint_attempts != task.attempt
        )
        if over:
            self._until(lambda: self._ports.store.delete_messages(self._settler.owner, [message.id]))
            return False
        return self._holdings.has_message(message.id)

    def _execute(self, job: Job) -> AttemptResult:
        task, message = job.task, job.message
        context = StepContext(
            run_id=task.run_id,
            step_id=task.step_id,
            attempt=task.attempt,
            clock=self._ports.clock,
            is_cancelled=lambda: message is not None and self._holdings.is_cancelled(message.id),
            beat=lambda progress: self._beats.beat(task, progress),
            last_progress=self._last_progress(job),
        )

        def still_held() -> None:
            if message is not None and not self._holdings.has_message(message.id):
                raise StopWorkingError

        return self._executor.execute(task, context, self._settler.dbclock.now_us(), still_held)

    def _last_progress(self, job: Job) -> Any:
        message = job.message
        if message is None or message.run_pk is None or (job.task.attempt == 1 and message.takes == 1):
            return None
        run_pk = message.run_pk
        text = self._until(lambda: self._ports.store.read_progress(run_pk, job.task.seq))
        return None if text is None else codec.parse(text, where=f"progress of step {job.task.step_id}")

    def settle(self, result: AttemptResult, message: HeldMessage | None) -> None:
        """Settle a result, again and again until the store has it."""
        attached = result if message is None else result.with_message(message.id)
        asked_at = self._ports.clock.monotonic()
        self._settled(self._until(lambda: self._settler.settle_step(attached)), asked_at)

    def _until(self, call: Callable[[], Any]) -> Any:
        return self._persistence.until(call, self._still_working)

    def _still_working(self) -> None:
        if self._stopping:
            raise StopWorkingError

    def _hand_back(self, job: Job) -> None:
        logger.warning("A step is not known here and is handed back", extra={"step_id": job.task.step_id})
        if job.message is None:
            return
        message_id = job.message.id
        delay_us = self._handback_us.get(job.task.name, FIRST_HANDBACK_US)
        self._handback_us[job.task.name] = min(2 * delay_us, LONGEST_HANDBACK_US)
        self._until(lambda: self._ports.store.give_back_messages(self._settler.owner, [message_id], delay_us=delay_us))

    def close(self) -> None:
        """Take nothing more."""
        self._closing = True

    def stop(self, timeout_s: float) -> None:
        """End the threads."""
        self._stopping = True
        for _ in self._handles:
            self._inbox.put(STOP)
        deadline = self._ports.clock.monotonic() + timeout_s
        for handle in self._handles:
            handle.join(max(0.0, deadline - self._ports.clock.monotonic()))
