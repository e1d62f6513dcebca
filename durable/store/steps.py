"""Verbs on dispatched steps: settle an attempt, store a beat."""

from __future__ import annotations

from typing import Any

from durable.store.marks import mutating
from durable.store.records import ClaimedRun, Settled, Settlement
from durable.store.runs import claimed_run
from durable.store.scripts import Part, Script, run_script
from durable.store.seam import Session, Statement

FREE = "status IN ('suspended', 'blocked')"
DUE = "COALESCE(:retry_at_us::bigint, {now})"
SETTLE = Script(
    guard=f"""
    UPDATE durable_workflow_runs SET
        status = CASE WHEN {FREE} AND :claim::boolean THEN 'running' ELSE status END,
        lease_owner = CASE WHEN {FREE} AND :claim::boolean THEN :owner ELSE lease_owner END,
        lease_epoch = lease_epoch + CASE WHEN {FREE} AND :claim::boolean THEN 1 ELSE 0 END,
        lease_expires_at_us = CASE WHEN {FREE} AND :claim::boolean THEN {{clock}} + :lease_us::bigint
            ELSE lease_expires_at_us END,
        waiting_on = CASE WHEN {FREE} AND :claim::boolean THEN '' ELSE waiting_on END,
        wake_at_us = CASE WHEN NOT {FREE} THEN wake_at_us
            WHEN :claim::boolean THEN {{now}} + :lease_us::bigint
            ELSE {{least}}(COALESCE(wake_at_us, {DUE}), {DUE}) END,
        wake_requested_at_us = CASE WHEN status = 'running' THEN {{now}} ELSE NULL END,
        settled_steps = settled_steps + CASE WHEN :retry_at_us::bigint IS NULL AND EXISTS (
            SELECT 1 FROM durable_step_checkpoints c WHERE c.run_pk = durable_workflow_runs.id AND c.seq = :seq::int
                AND c.status IN ('pending', 'running') AND c.attempts = :attempt::int
        ) THEN 1 ELSE 0 END
    WHERE run_id = :run_id AND status IN ('pending', 'suspended', 'blocked', 'running')
    RETURNING id, run_id, lease_owner, lease_epoch, workflow, version, generation, recovery_attempts, namespace,
        partition, priority, input_shape, wake_requested_at_us, status, {{now}}, settled_steps
    """,
    columns=16,
    parts=(
        Part(
            text="""
            UPDATE durable_step_checkpoints SET
                status = :status, output = :output, error = :error, events = :events,
                attempts = attempts + CASE WHEN :retry_at_us::bigint IS NULL THEN 0 ELSE 1 END,
                wake_at_us = :retry_at_us::bigint,
                settled_order = CASE WHEN :retry_at_us::bigint IS NULL THEN 2 * {settled_steps} END,
                enqueued_at_us = CASE WHEN :retry_at_us::bigint IS NULL THEN enqueued_at_us END,
                started_at_us = COALESCE(:started_at_us::bigint, started_at_us),
                finished_at_us = CASE WHEN :retry_at_us::bigint IS NULL THEN {now} END
            WHERE run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND seq = :seq::int
                AND status IN ('pending', 'running') AND attempts = :attempt::int AND (
                    :message_id::bigint IS NULL
                    OR EXISTS (SELECT 1 FROM durable_transport_messages WHERE id = :message_id::bigint)
                )
            RETURNING 1
            """
        ),
        Part(text="DELETE FROM durable_transport_messages WHERE id = :message_id::bigint RETURNING 1"),
    ),
)
BEAT = Statement(
    """
    UPDATE durable_step_checkpoints SET
        last_heartbeat_at_us = {now}, beat_by = :owner, progress = COALESCE(:progress, progress),
        started_at_us = COALESCE(started_at_us, {now})
    WHERE status IN ('pending', 'running') AND seq = :seq::int AND run_pk {in_ids}
        SELECT run_pk FROM durable_step_checkpoints
        WHERE run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND seq = :seq::int {skip_locked}
    {end_ids}
    RETURNING 1
    """,
    writes=True,
)
POLICY = Statement(
    """
    SELECT policy FROM durable_step_checkpoints
    WHERE run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND seq = :seq::int
    """
)
PROGRESS = Statement("SELECT progress FROM durable_step_checkpoints WHERE run_pk = :pk::bigint AND seq = :seq::int")


class StepVerbs:
    """Settle dispatched steps and store their beats."""

    session: Session

    @mutating
    def settle_steps(self, owner: str, settlements: list[Settlement], *, lease_us: int) -> list[Settled]:
        """Settle attempts of dispatched steps and wake their runs, each in one transaction.

        A free run is claimed by ``owner`` where the settlement asks for it, else made due; a leased run is stamped. A
        settled checkpoint is left as it is, and its run is woken all the same: whoever settled it may have died.
        """
        return [self._settle(owner, settlement, lease_us) for settlement in settlements]

    def _settle(self, owner: str, settlement: Settlement, lease_us: int) -> Settled:
        params: dict[str, Any] = {
            "owner": owner,
            "lease_us": lease_us,
            "run_id": settlement.run_id,
            "seq": settlement.seq,
            "attempt": settlement.attempt,
            "status": settlement.status.value,
            "output": settlement.output,
            "error": settlement.error,
            "events": settlement.events,
            "started_at_us": settlement.started_at_us,
            "retry_at_us": settlement.retry_at_us,
            "message_id": settlement.message_id,
            "claim": settlement.claim,
        }
        outcome = run_script(self.session, SETTLE, params, needs_guard=False)
        written = outcome.counts[0] > 0
        if outcome.row is None:
            return Settled(run_pk=None, written=written)
        stamped = outcome.row[12] is not None
        claimed = outcome.row[13] == "running" and outcome.row[2] == owner
        return Settled(
            run_pk=outcome.row[0],
            written=written,
            claimed=self._claimed(outcome.row) if claimed else None,
            stamped_owner=outcome.row[2] if stamped else None,
        )

    @staticmethod
    def _claimed(row: tuple[Any, ...]) -> ClaimedRun:
        return claimed_run((*row[:11], None, row[11], row[14]))

    @mutating
    def record_beat(self, owner: str, run_id: str, seq: int, *, progress: str | None) -> bool:
        """Store that a step was alive now, by the database's clock; return whether it still waits for a result."""
        params = {"owner": owner, "run_id": run_id, "seq": seq, "progress": progress}
        return bool(self.session.execute(BEAT, params))

    def read_policy(self, run_id: str, seq: int) -> str | None:
        """Return how often a dispatched step is tried, as it was stored with its dispatch."""
        rows = self.session.execute(POLICY, {"run_id": run_id, "seq": seq})
        return rows[0][0] if rows else None

    def read_progress(self, run_pk: int, seq: int) -> str | None:
        """Return what an earlier attempt of the step last reported."""
        rows = self.session.execute(PROGRESS, {"pk": run_pk, "seq": seq})
        return rows[0][0] if rows else None
