"""Steering runs from outside: signal, cancel, retry."""

from __future__ import annotations

from typing import Any

from durable.authoring import codec
from durable.core.errors import NonDeterminismError, RunNotFound, WrongState
from durable.core.failure import Failure
from durable.core.ids import check_name
from durable.core.states import RETRYABLE, TERMINAL, RunStatus
from durable.engine.engine import Engine
from durable.engine.loop import CANCEL
from durable.store.records import NewSignal, OutgoingMessage, RunRecord
from durable.store.signals import RUNS_QUEUE


def send_signal(engine: Engine, token: str, payload: Any) -> None:
    """Keep a signal for whoever waits for the token, now or later; in a caller's transaction it only inserts.

    Raises:
        InvalidName: The token is empty, too long, or holds control characters.
        PayloadError: The payload cannot be carried.
        StoreUnavailable: The database did not answer.
    """
    check_name("token", token)
    text = codec.encode(payload, where=f"signal {token!r}", limit_bytes=engine.config.payload_max_bytes)
    signal = NewSignal(token=token, key=engine.ports.ids.token(16), payload=text)
    engine.persistence.ask(engine.store.session, lambda: engine.store.send_signal(signal))
    engine.changed()


def read_run(engine: Engine, run_id: str) -> RunRecord:
    """Return a run.

    Raises:
        RunNotFound: There is none with this id.
        StoreUnavailable: The database did not answer.
    """
    run = engine.persistence.ask(engine.store.session, lambda: engine.store.read_run(run_id))
    if run is None:
        raise RunNotFound(run_id)
    return run


def cancel_run(engine: Engine, run_id: str) -> None:
    """End an open run as cancelled; in a caller's transaction the cancellation follows its commit.

    Raises:
        RunNotFound: There is none with this id.
        WrongState: It has ended already.
    """
    run = read_run(engine, run_id)
    if run.status in TERMINAL:
        raise _ended(run, "cancel")
    if engine.store.session.in_transaction():
        request = OutgoingMessage(
            queue=RUNS_QUEUE, kind=CANCEL, body=run_id, run_pk=run.run_pk, namespace=run.namespace
        )
        engine.persistence.ask(engine.store.session, lambda: engine.store.send_messages([request]))
        engine.changed()
        return
    if not engine.cancel(run_id):
        now = read_run(engine, run_id)
        if now.status is not RunStatus.CANCELLED:
            raise _ended(now, "cancel")


def _ended(run: RunRecord, action: str) -> WrongState:
    return WrongState(run.run_id, action, run.status.value, "It has ended; nothing was changed.")


def retry_run(engine: Engine, run_id: str) -> None:
    """Put a failed, dead or cancelled run back in the queue; what had completed is kept.

    Raises:
        RunNotFound: There is none with this id.
        WrongState: It has not ended, or it has completed.
    """
    run = read_run(engine, run_id)
    if run.status not in RETRYABLE:
        raise WrongState(run_id, "retry", run.status.value, _retry_hint(run.status))
    failed_seq = _failed_seq(run)
    asked = 0

    def ask() -> bool:
        nonlocal asked
        asked += 1
        return engine.store.retry_run(run_id, generation=run.generation, failed_seq=failed_seq)

    done = engine.persistence.ask(engine.store.session, ask)
    if not done and asked == 1:  # a repeated call may have met what its own first try wrote
        now = read_run(engine, run_id)
        raise WrongState(run_id, "retry", now.status.value, "Someone else has retried it at the same moment.")
    engine.changed()


def _failed_seq(run: RunRecord) -> int | None:
    """Return the position whose failure ended the run; a body that left its history keeps all of it."""
    failure = Failure.from_json(run.error) if run.error else None
    return None if failure is None or failure.kind == NonDeterminismError.__name__ else failure.seq


def _retry_hint(status: RunStatus) -> str:
    if status is RunStatus.COMPLETED:
        return "It has completed; start a new run instead."
    return "It has not ended; wait for its end or cancel it first."
