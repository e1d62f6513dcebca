"""Every exception that durable raises, in one tree.

::

    DurableError
    ├── PayloadError
    │   └── PayloadTooLarge
    ├── InvalidRunId
    ├── InvalidName
    ├── InvalidDuration                 (also a ValueError)
    ├── RunNotFound
    ├── RunIdConflict
    ├── WorkflowNotRegistered
    ├── VersionNotRegistered
    ├── StepNotRegistered
    ├── WrongState
    ├── OperationRefused
    ├── NonDeterminismError
    ├── RunNotCompleted
    │   ├── RunFailed
    │   ├── RunCancelled
    │   └── RunDead
    ├── ResultTimeout                   (also a TimeoutError)
    ├── StepFailed
    │   └── StepTimeout
    ├── WaitTimeout                     (also a TimeoutError)
    ├── StepCancelled
    ├── StoreUnavailable
    ├── TransportUnavailable
    ├── MigrationsMissing
    ├── MalformedMessage
    └── ConfigurationError

    FatalError                          raised by users; stops retries at once

    ControlFlow (BaseException)         never caught by ``except Exception``
    ├── BodyDiscarded
    └── LeaseLost

Each exception takes facts, keeps them as attributes and composes its message: what happened, where, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from durable.core.failure import Failure


class DurableError(Exception):
    """Be the base of everything that durable reports to its users.

    ``code`` is stable text for programs; the message is for people and may change. ``retryable`` tells a step's
    retries whether another attempt can help.
    """

    code: str = "durable_error"
    retryable: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive a copy and Django's parallel test runner, though ``__init__`` takes facts instead of a message."""
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[DurableError], args: tuple[object, ...], facts: dict[str, object]) -> DurableError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(facts)
    return error


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a typing mistake most likely meant, or None."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _suggestion(name: str, known: Sequence[str], *, otherwise: str) -> str:
    close = nearest(name, known)
    if close is not None:
        return f" Did you mean {close!r}?"
    if not known:
        return f" {otherwise}"
    shown = ", ".join(repr(each) for each in sorted(known)[:10])
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f" Known: {shown}{more}."


class PayloadError(DurableError):
    """Report a value that JSON cannot carry, or that does not fit the annotation.

    Attributes:
        where: The step, workflow or signal whose value it is.
        path: Place inside the value, such as ``$.items[3].price``.
        problem: What is wrong there.
    """

    code = "payload_error"
    retryable = False

    def __init__(self, where: str, path: str, problem: str) -> None:
        self.where = where
        self.path = path
        self.problem = problem
        super().__init__(f"{where}: at {path}: {problem}")


class PayloadTooLarge(PayloadError):
    """Report a value whose JSON is over the limit of the setting ``PAYLOAD_MAX_BYTES``."""

    code = "payload_too_large"

    def __init__(self, where: str, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            where,
            "$",
            f"the value takes {size_bytes:,} bytes as JSON, the limit is {limit_bytes:,} bytes. Store it elsewhere and "
            f"pass a reference, or raise DURABLE['PAYLOAD_MAX_BYTES'].",
        )


class InvalidRunId(DurableError):
    """Report a run id that cannot be stored on every database."""

    code = "invalid_run_id"
    retryable = False

    def __init__(self, run_id: object, problem: str) -> None:
        self.run_id = run_id
        self.problem = problem
        super().__init__(
            f"Run id {_shown(run_id)} {problem}. Use 1 to 255 characters without control characters or lone surrogates."
        )


class InvalidName(DurableError):
    """Report a name of a step, workflow, signal, queue, … that cannot be stored on every database."""

    code = "invalid_name"
    retryable = False

    def __init__(self, kind: str, name: object, problem: str) -> None:
        self.kind = kind
        self.name = name
        self.problem = problem
        super().__init__(
            f"The {kind} {_shown(name)} {problem}. "
            f"Use 1 to 255 characters without control characters or lone surrogates."
        )


class InvalidDuration(DurableError, ValueError):
    """Report a value that is no duration."""

    code = "invalid_duration"
    retryable = False

    def __init__(self, value: object, problem: str) -> None:
        self.value = value
        self.problem = problem
        super().__init__(
            f"{_shown(value)} is no duration: {problem}. "
            f"Give a timedelta, a number of seconds, or text such as '250ms', '30s', '5m', '2h' or '7d'."
        )


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}…{text[-10:]}"


class RunNotFound(DurableError):
    """Report that no run has this id."""

    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"There is no run {run_id!r}. Check the id and the database alias; it may have been pruned.")


class RunIdConflict(DurableError):
    """Report that the id already belongs to a run of another workflow."""

    code = "run_id_conflict"
    retryable = False

    def __init__(self, run_id: str, existing_workflow: str, requested_workflow: str) -> None:
        self.run_id = run_id
        self.existing_workflow = existing_workflow
        self.requested_workflow = requested_workflow
        super().__init__(
            f"Run {run_id!r} exists and belongs to workflow {existing_workflow!r}, not to {requested_workflow!r}. "
            f"Choose an id that contains the workflow's name."
        )


class WorkflowNotRegistered(DurableError):
    """Report a workflow name that this process does not have."""

    code = "workflow_not_registered"
    retryable = False

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        self.name = name
        self.known = tuple(known)
        hint = _suggestion(name, self.known, otherwise="No workflow is registered in this process.")
        super().__init__(
            f"Workflow {name!r} is not registered.{hint} "
            f"Workflows live in the module 'workflows' of an app in INSTALLED_APPS."
        )


class VersionNotRegistered(DurableError):
    """Report a version of a known workflow that this process does not have."""

    code = "version_not_registered"
    retryable = False

    def __init__(self, name: str, version: str, known: Sequence[str] = ()) -> None:
        self.name = name
        self.version = version
        self.known = tuple(known)
        have = ", ".join(repr(each) for each in self.known) or "none"
        super().__init__(
            f"Workflow {name!r} has no version {version!r} in this process (registered: {have}). "
            f"Keep the old version registered beside the new one while runs of it are alive."
        )


class StepNotRegistered(DurableError):
    """Report a step name that this process does not have."""

    code = "step_not_registered"
    retryable = False

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        self.name = name
        self.known = tuple(known)
        hint = _suggestion(name, self.known, otherwise="No step is registered in this process.")
        super().__init__(
            f"Step {name!r} is not registered.{hint} Steps live in the module 'steps' of an app in INSTALLED_APPS."
        )


class WrongState(DurableError):
    """Report an action that the run's status does not allow."""

    code = "wrong_state"

    def __init__(self, run_id: str, action: str, status: str, hint: str) -> None:
        self.run_id = run_id
        self.action = action
        self.status = str(status)
        self.hint = hint
        super().__init__(f"Cannot {action} run {run_id!r}: it is {self.status}. {hint}".rstrip())


class OperationRefused(DurableError):
    """Report an operation that makes no sense where it was called.

    Attributes:
        operation: What was called.
        reason: Why it cannot work here.
        instead: What to use.
    """

    code = "operation_refused"
    retryable = False

    def __init__(self, operation: str, reason: str, instead: str) -> None:
        self.operation = operation
        self.reason = reason
        self.instead = instead
        super().__init__(f"{operation} is refused: {reason}. {instead}")


class NonDeterminismError(DurableError):
    """Report a body that asked for something else than its history records."""

    code = "non_determinism"
    retryable = False

    def __init__(
        self,
        run_id: str,
        seq: int,
        recorded_name: str,
        recorded_kind: str,
        requested_name: str,
        requested_kind: str,
    ) -> None:
        self.run_id = run_id
        self.seq = seq
        self.recorded_name = recorded_name
        self.recorded_kind = str(recorded_kind)
        self.requested_name = requested_name
        self.requested_kind = str(requested_kind)
        super().__init__(
            f"Run {run_id!r} left its history at position {seq}: recorded is {self.recorded_kind} {recorded_name!r}, "
            f"the body asked for {self.requested_kind} {requested_name!r}. The workflow was changed, or it decides by "
            f"something that is not recorded (clock, randomness, a query). Mend the body and retry the run, or "
            f"register the change as a new version."
        )


class RunNotCompleted(DurableError):
    """Report that a run ended without a result.

    Attributes:
        run_id: The run.
        failure: What ended it, where that is known.
    """

    code = "run_not_completed"
    verb: ClassVar[str] = "did not complete"

    def __init__(self, run_id: str, failure: Failure | None = None) -> None:
        self.run_id = run_id
        self.failure = failure
        cause = f": {failure.kind}: {failure.message}" if failure is not None else ""
        super().__init__(f"Run {run_id!r} {self.verb}{cause}")


class RunFailed(RunNotCompleted):
    """Report that the body raised."""

    code = "run_failed"
    verb = "failed"


class RunCancelled(RunNotCompleted):
    """Report that the run was cancelled."""

    code = "run_cancelled"
    verb = "was cancelled"


class RunDead(RunNotCompleted):
    """Report that the run was given up after too many recoveries."""

    code = "run_dead"
    verb = "is dead: its process died too often while it ran"


class ResultTimeout(DurableError, TimeoutError):
    """Report that the run had not ended when the caller's patience did. The run goes on."""

    code = "result_timeout"

    def __init__(self, run_id: str, timeout: timedelta) -> None:
        self.run_id = run_id
        self.timeout = timeout
        super().__init__(
            f"Run {run_id!r} has not ended within {timeout.total_seconds():g} s. It goes on; ask again later."
        )


class StepFailed(DurableError):
    """Report inside a body that a step failed for good.

    Attributes:
        step: Name of the step.
        code: Code of the step's error; the class's own code when the step gave none.
        message: Message of the step's error.
        attempts: How often it was tried.
        seq: Position of the step in the run.
    """

    code = "step_failed"
    retryable = False

    def __init__(self, step: str, code: str | None, message: str, attempts: int, seq: int | None = None) -> None:
        self.step = step
        self.code = code if code is not None else type(self).code
        self.message = message
        self.attempts = attempts
        self.seq = seq
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"Step {step!r} failed after {times}: {message}")


class StepTimeout(StepFailed):
    """Report inside a body that a step was silent, or not picked up, for too long."""

    code = "step_timeout"


class WaitTimeout(DurableError, TimeoutError):
    """Report inside a body that nothing arrived in time."""

    code = "wait_timeout"

    def __init__(self, tokens: tuple[str, ...], seq: int) -> None:
        self.tokens = tokens
        self.seq = seq
        names = ", ".join(repr(each) for each in tokens)
        super().__init__(f"No signal arrived in time for {names} (position {seq}).")


class StepCancelled(DurableError):
    """Report inside a step that its run was cancelled; let it pass, so that the attempt ends."""

    code = "step_cancelled"
    retryable = False

    def __init__(self, step_id: str) -> None:
        self.step_id = step_id
        super().__init__(f"Step {step_id!r} belongs to a run that was cancelled. Stop working on it.")


class StoreUnavailable(DurableError):
    """Report a database that does not answer."""

    code = "store_unavailable"

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"The database of the runs cannot be reached: {detail}")


class TransportUnavailable(DurableError):
    """Report a broker that does not answer. The address must come without its password."""

    code = "transport_unavailable"

    def __init__(self, address: str, detail: str) -> None:
        self.address = address
        self.detail = detail
        super().__init__(f"The broker at {address} cannot be reached: {detail}")


class MigrationsMissing(DurableError):
    """Report a database that is not ready for this app.

    Attributes:
        tables: Tables that are not there.
        migrations: Migrations that are not applied.
        database: Its alias.
    """

    code = "migrations_missing"
    retryable = False

    def __init__(
        self, tables: Sequence[str] = (), *, migrations: Sequence[str] = (), database: str = "default"
    ) -> None:
        self.tables = tuple(tables)
        self.migrations = tuple(migrations)
        self.database = database
        lacking = "Tables are missing" if self.tables else "Migrations are not applied"
        option = "" if database == "default" else f" --database {database}"
        names = ", ".join(self.tables or self.migrations)
        super().__init__(f"{lacking}: {names}. Run: manage.py migrate durable{option}")


class MalformedMessage(DurableError):
    """Report a message that is not what the wire promises.

    Attributes:
        kind: The message that was expected.
        reason: What is wrong, with the place.
    """

    code = "malformed_message"
    retryable = False

    def __init__(self, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(f"Malformed {kind}: {reason}")


class ConfigurationError(DurableError):
    """Report a mistake in settings or declarations. It takes the whole message, since the places differ too much."""

    code = "configuration_error"
    retryable = False


class FatalError(Exception):
    """Stop retries at once.

    Raise it in a step when another attempt cannot help::

        raise FatalError("card is stolen", code="card_stolen")

    Args:
        message: For people.
        code: For programs; the body finds it in ``StepFailed.code``.
    """

    retryable = False

    def __init__(self, message: str, *, code: str = "fatal") -> None:
        self.message = message
        self.code = code
        super().__init__(message)


class ControlFlow(BaseException):
    """Unwind user code without being a failure; must pass through ``except Exception``."""


class BodyDiscarded(ControlFlow):
    """Unwind a body that is thrown away; it will be replayed elsewhere or later."""


class LeaseLost(ControlFlow):
    """Unwind a body whose run now belongs to another instance."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"The lease of run {run_id!r} is lost")
