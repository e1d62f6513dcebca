"""Verbs on signals: send, serve the wake, take. The token's lock makes a sender and a waiter see each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from durable.core.states import CheckpointStatus
from durable.store.checkpoints import FENCE, checkpoint_params
from durable.store.marks import mutating
from durable.store.messages import DELETE, MESSAGES, SEND, message_row
from durable.store.records import CheckpointWrite, Lease, NewSignal, OutgoingMessage, TakenSignal, TurnEnd
from durable.store.seam import Session, Statement
from durable.store.turns import RECORD_ONE, TurnVerbs, lease_params

SETTLED = (CheckpointStatus.COMPLETED, CheckpointStatus.FAILED)
RUNS_QUEUE = "runs"
WAKE = "wake"
KEEP = """
    INSERT INTO durable_buffered_signals (token, key, payload, created_at_us)
    SELECT :token, :key, :payload, {now} WHERE TRUE
    ON CONFLICT (key) DO NOTHING
    RETURNING 1
"""
SIGNAL = Statement(
    KEEP,
    postgresql=f"""
    WITH kept AS ({KEEP})
    INSERT INTO durable_transport_messages (
        queue, kind, body, dedupe_key, namespace, priority, visible_at_us, takes, created_at_us
    )
    SELECT 'runs', 'wake', :token, 'signal:' || :key, 'default', 0, {{now}}, 0, {{now}} FROM kept
    ON CONFLICT (dedupe_key) DO NOTHING
    RETURNING 1
    """,
    writes=True,
)
LOCK_TOKENS = Statement(
    "SELECT 1",
    postgresql="SELECT pg_advisory_xact_lock(hashtextextended(token, 0)) FROM unnest(:tokens::text[]) AS t(token)",
)
TAKE_SIGNAL = Statement(
    """
    UPDATE durable_buffered_signals SET consumed_run_pk = :pk::bigint, consumed_seq = :seq::int, consumed_at_us = {now}
    WHERE id = (
        SELECT id FROM durable_buffered_signals WHERE token {list:tokens:text} AND consumed_run_pk IS NULL
        ORDER BY id LIMIT 1
    )
    RETURNING token, payload
    """,
    writes=True,
)
LOCK_HOLDER = Statement(
    f"""
    SELECT id, (SELECT c.status FROM durable_step_checkpoints c WHERE c.run_pk = :pk::bigint AND c.seq = :seq::int),
        (SELECT c.output FROM durable_step_checkpoints c WHERE c.run_pk = :pk::bigint AND c.seq = :seq::int),
        (SELECT c.error FROM durable_step_checkpoints c WHERE c.run_pk = :pk::bigint AND c.seq = :seq::int)
    FROM durable_workflow_runs WHERE id = :pk::bigint AND {FENCE} {{lock}}
    """
)
FORGET = Statement(
    "DELETE FROM durable_signal_waiters WHERE run_pk = :pk::bigint AND seq = :seq::int RETURNING 1", writes=True
)
FORGET_ENDED = Statement(
    """
    DELETE FROM durable_signal_waiters WHERE token {list:tokens:text} AND run_pk IN (
        SELECT r.id FROM durable_workflow_runs r WHERE r.id = durable_signal_waiters.run_pk
            AND r.status IN ('completed', 'failed', 'cancelled', 'dead')
    )
    RETURNING 1
    """,
    writes=True,
)
WAKE_WAITING = Statement(
    """
    UPDATE durable_workflow_runs SET
        wake_at_us = CASE WHEN status IN ('suspended', 'blocked') THEN {least}(COALESCE(wake_at_us, {now}), {now})
            ELSE wake_at_us END,
        wake_requested_at_us = CASE WHEN status = 'running' THEN {now} ELSE wake_requested_at_us END
    WHERE status IN ('suspended', 'blocked', 'running') AND id {in_ids}
        SELECT r.id FROM durable_workflow_runs r
        WHERE r.id IN (SELECT w.run_pk FROM durable_signal_waiters w WHERE w.token {list:tokens:text})
        ORDER BY r.id {lock}
    {end_ids}
    RETURNING id
    """,
    writes=True,
)


class SignalVerbs(TurnVerbs):
    """Keep, serve and take signals."""

    session: Session

    @mutating
    def send_signal(self, signal: NewSignal) -> None:
        """Keep a signal and ask any worker to wake who waits for it; only inserts, also in a caller's transaction.

        A signal whose key was sent before is left out, even when it has been consumed since.
        """
        params = {"token": signal.token, "key": signal.key, "payload": signal.payload}
        if self.session.dialect.name == "postgresql":
            self.session.execute(SIGNAL, params)
            return
        with self.session.transaction():
            if self.session.execute(SIGNAL, params):
                self._send_wake(signal)

    def _send_wake(self, signal: NewSignal) -> None:
        wake = OutgoingMessage(queue=RUNS_QUEUE, kind=WAKE, body=signal.token, dedupe_key=f"signal:{signal.key}")
        self.session.execute(SEND, self.session.dialect.bind_rows(MESSAGES, [message_row(wake)]))

    @mutating
    def serve_wakes(self, owner: str, wakes: Sequence[tuple[int, str]]) -> list[int]:
        """Make the runs that wait for these tokens due, or stamp them, and delete the messages.

        Args:
            owner: Who holds the messages.
            wakes: Pairs of message id and token.

        Returns:
            The surrogate keys of the woken runs.
        """
        bind = self.session.dialect.bind_list
        tokens = bind(sorted({token for _, token in wakes}))
        with self.session.transaction():
            self.session.execute(LOCK_TOKENS, {"tokens": tokens})
            woken = self.session.execute(WAKE_WAITING, {"tokens": tokens})
            self.session.execute(FORGET_ENDED, {"tokens": tokens})
            self.session.execute(DELETE, {"owner": owner, "ids": bind([message_id for message_id, _ in wakes])})
        return [row[0] for row in woken]

    @mutating
    def take_signal(
        self,
        lease: Lease,
        tokens: Sequence[str],
        checkpoint: CheckpointWrite,
        otherwise: TurnEnd | CheckpointWrite,
    ) -> TakenSignal:
        """Consume the oldest signal kept for any of the tokens, or register to wait for one.

        Args:
            lease: The fence.
            tokens: What the run waits for.
            checkpoint: The wait's checkpoint; completed with the signal when there is one.
            otherwise: What to write when there is none: the end of the turn, or the checkpoint of a wait whose time
                has passed.
        """
        bind = self.session.dialect.bind_list
        key = lease_params(lease)
        with self.session.transaction():
            position = {"pk": lease.run_pk, "seq": checkpoint.seq}
            self.session.execute(LOCK_TOKENS, {"tokens": bind(sorted(tokens))})
            held = self.session.execute(LOCK_HOLDER, key | position)
            if not held:
                return TakenSignal(lost=True)
            _, status, output, error = held[0]
            if status in SETTLED:
                return TakenSignal(
                    checkpoint=replace(checkpoint, status=CheckpointStatus(status), output=output, error=error)
                )
            taken = self.session.execute(TAKE_SIGNAL, position | {"tokens": bind(tokens)})
            if taken:
                settled = self._settled(checkpoint, (taken[0][0], taken[0][1]))
            elif isinstance(otherwise, CheckpointWrite):
                settled = otherwise
            else:
                return TakenSignal(suspended=self._end(otherwise))
            self.session.execute(RECORD_ONE, key | checkpoint_params(settled))
            self.session.execute(FORGET, position)
        return TakenSignal(checkpoint=settled)

    @staticmethod
    def _settled(checkpoint: CheckpointWrite, taken: tuple[str, str]) -> CheckpointWrite:
        token, payload = taken
        output = f'{{"signal":{json.dumps(token)},"payload":{payload}}}'
        return replace(checkpoint, status=CheckpointStatus.COMPLETED, output=output)
