"""Verbs on whole runs: start, claim, cancel, retry, recover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from durable.core.states import RunStatus
from durable.store.dialects import RowSource
from durable.store.marks import mutating
from durable.store.records import ClaimedRun, Interest, Lease, NewRun, Recovered, RunRecord, Started
from durable.store.scripts import Outcome, Part, Script, run_script
from durable.store.seam import Row, Session, Statement

OPEN = "('pending', 'running', 'suspended', 'blocked', 'cancelling')"
RUN_COLUMNS = "run_id, workflow, version, status, input, output, error, generation, note, waiting_on"
CLAIM_COLUMNS = (
    "id, run_id, lease_owner, lease_epoch, workflow, version, generation, recovery_attempts, namespace, partition, "
    "priority, CASE WHEN lease_epoch = 1 THEN input END, input_shape"
)
WORKFLOWS = RowSource(name="workflows", columns={"name": "text", "version": "text"})
MINE = """(:namespace::text IS NULL OR namespace = :namespace::text)
    AND (workflow, version) IN (SELECT name, version FROM {workflows})"""

START = Statement(
    """
    INSERT INTO durable_workflow_runs (
        run_id, workflow, version, origin, namespace, partition, priority, status, note, waiting_on, tags,
        search_attributes, input, input_shape, generation, pending_seq, settled_steps, recovery_attempts, wake_at_us,
        lease_epoch,
        execution_timeout_us, deadline_at_us, created_at_us, updated_at_us
    )
    SELECT :run_id, :workflow, :version, :origin, :namespace, :partition, :priority::int, 'pending', '', '', :tags,
        '{}', :input, :input_shape, 0, 1, 0, 0, {now}, 0, :timeout_us::bigint, {now} + :timeout_us::bigint, {now}, {now}
    WHERE TRUE
    ON CONFLICT (run_id) DO NOTHING
    RETURNING id
    """,
    writes=True,
)
READ = Statement(
    f"SELECT id, {RUN_COLUMNS}, lease_owner, lease_epoch, namespace FROM durable_workflow_runs WHERE run_id = :run_id"
)
READ_BY_PK = Statement(
    f"SELECT id, {RUN_COLUMNS}, lease_owner, lease_epoch, namespace FROM durable_workflow_runs WHERE id = :pk"
)
CLAIM = Statement(
    f"""
    UPDATE durable_workflow_runs SET
        status = 'running', lease_owner = :owner, lease_epoch = lease_epoch + 1,
        lease_expires_at_us = {{clock}} + :lease_us::bigint, wake_requested_at_us = NULL, waiting_on = '',
        wake_at_us = CASE WHEN status = 'pending' THEN NULL ELSE {{now}} + :lease_us::bigint END,
        started_at_us = COALESCE(started_at_us, {{now}}), updated_at_us = {{now}}
    WHERE id {{in_ids}}
        SELECT id FROM durable_workflow_runs
        WHERE status IN ('pending', 'suspended') AND wake_at_us <= {{now}} AND {MINE}
        ORDER BY wake_at_us, id LIMIT :limit::int {{skip_locked}}
    {{end_ids}}
    RETURNING {CLAIM_COLUMNS}, {{now}}
    """,
    writes=True,
    sources=(WORKFLOWS,),
)
ADOPT = Statement(
    f"""
    SELECT {CLAIM_COLUMNS}, {{now}} FROM durable_workflow_runs
    WHERE status IN ('running', 'cancelling') AND lease_owner = :owner AND lease_expires_at_us > {{clock}}
        AND lease_expires_at_us < {{clock}} + :lease_us::bigint * 2 / 3 AND NOT (id {{list:known:bigint}})
    """
)
INPUTS = Statement("SELECT id, input FROM durable_workflow_runs WHERE id {list:pks:bigint}")
FORGET_TASKS = Part(
    text="""
    DELETE FROM durable_transport_messages WHERE {guarded} AND dedupe_key IN (
        SELECT CAST(c.run_pk AS text) || ':' || CAST(c.seq AS text) || ':' || CAST(c.attempts AS text)
        FROM durable_step_checkpoints c
        WHERE c.run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND c.kind = 'remote'
            AND c.status IN ('pending', 'running')
    )
    RETURNING 1
    """
)
CANCEL = Script(
    guard=f"""
    UPDATE durable_workflow_runs SET
        status = 'cancelled', error = :error, lease_owner = NULL, lease_epoch = lease_epoch + 1,
        lease_expires_at_us = NULL, wake_at_us = NULL, wake_requested_at_us = NULL, waiting_on = '', note = '',
        awaiting_decision_task_id = NULL, updated_at_us = {{now}}, finished_at_us = {{now}}
    WHERE run_id = :run_id AND status IN {OPEN}
    RETURNING id
    """,
    columns=1,
    parts=(
        FORGET_TASKS,
        Part(
            text="""
            DELETE FROM durable_signal_waiters
            WHERE run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND {guarded}
            RETURNING 1
            """
        ),
    ),
)
RETRY = Script(
    guard="""
    UPDATE durable_workflow_runs SET
        status = 'pending', generation = generation + 1, pending_seq = pending_seq + 1, recovery_attempts = 0,
        error = NULL, note = '', wake_at_us = {now}, wake_requested_at_us = NULL, finished_at_us = NULL,
        deadline_at_us = {now} + execution_timeout_us, updated_at_us = {now}
    WHERE run_id = :run_id AND generation = :generation::int AND status IN ('failed', 'dead', 'cancelled')
    RETURNING id
    """,
    columns=1,
    parts=(
        FORGET_TASKS,
        Part(
            text="""
            DELETE FROM durable_step_checkpoints
            WHERE run_pk = (SELECT id FROM durable_workflow_runs WHERE run_id = :run_id) AND {guarded} AND (
                status IN ('pending', 'running')
                OR (status = 'failed' AND seq >= COALESCE(:failed_seq::int, (
                    SELECT COALESCE(MAX(done.seq), -1) FROM durable_step_checkpoints done
                    WHERE done.run_pk = durable_step_checkpoints.run_pk AND done.status = 'completed'
                )))
                OR (seq > :failed_seq::int AND COALESCE(parallel_group, -1) <> COALESCE((
                    SELECT failed.parallel_group FROM durable_step_checkpoints failed
                    WHERE failed.run_pk = durable_step_checkpoints.run_pk AND failed.seq = :failed_seq::int
                ), -2))
                OR (status = 'failed' AND parallel_group = (
                    SELECT failed.parallel_group FROM durable_step_checkpoints failed
                    WHERE failed.run_pk = durable_step_checkpoints.run_pk AND failed.seq = :failed_seq::int
                ) AND NOT EXISTS (
                    SELECT 1 FROM durable_step_checkpoints other
                    WHERE other.run_pk = durable_step_checkpoints.run_pk AND other.seq > durable_step_checkpoints.seq
                        AND other.seq < :failed_seq::int
                        AND COALESCE(other.parallel_group, -1) <> durable_step_checkpoints.parallel_group
                ))
            )
            RETURNING 1
            """
        ),
    ),
)
COUNTED = "CASE WHEN waiting_on = '' THEN 1 ELSE 0 END"
RECOVER = Statement(
    f"""
    UPDATE durable_workflow_runs SET
        status = CASE WHEN recovery_attempts + {COUNTED} > :max_attempts::bigint THEN 'dead' ELSE 'pending' END,
        recovery_attempts = recovery_attempts + {COUNTED}, waiting_on = '',
        generation = generation + 1, pending_seq = pending_seq + 1, lease_owner = NULL, lease_epoch = lease_epoch + 1,
        lease_expires_at_us = NULL, wake_requested_at_us = NULL, wake_at_us = {{now}}, updated_at_us = {{now}}
    WHERE status = 'running' AND lease_expires_at_us <= {{now}} AND id {{in_ids}}
        SELECT id FROM durable_workflow_runs
        WHERE status IN ('running', 'cancelling') AND status = 'running' AND lease_expires_at_us <= {{now}}
        ORDER BY lease_expires_at_us, id LIMIT :limit::int {{skip_locked}}
    {{end_ids}}
    RETURNING id, run_id, workflow, status
    """,
    writes=True,
)
BURY = Statement(
    """
    UPDATE durable_workflow_runs SET error = :error, wake_at_us = NULL, finished_at_us = {now}
    WHERE status = 'dead' AND finished_at_us IS NULL AND id {list:pks:bigint}
    """,
    writes=True,
)
FAIL_SUSPENDED = Statement(
    """
    UPDATE durable_workflow_runs SET
        status = 'failed', error = :error, wake_at_us = NULL, wake_requested_at_us = NULL, waiting_on = '',
        lease_epoch = lease_epoch + 1, updated_at_us = {now}, finished_at_us = {now}
    WHERE id = :pk::bigint AND generation = :generation::int AND status = 'suspended'
    RETURNING id
    """,
    writes=True,
)
EXPIRE = Statement(
    f"""
    UPDATE durable_workflow_runs SET
        status = 'cancelled', error = :error, lease_owner = NULL, lease_epoch = lease_epoch + 1,
        lease_expires_at_us = NULL, wake_at_us = NULL, wake_requested_at_us = NULL, waiting_on = '', note = '',
        awaiting_decision_task_id = NULL, updated_at_us = {{now}}, finished_at_us = {{now}}
    WHERE status IN {OPEN} AND id {{in_ids}}
        SELECT id FROM durable_workflow_runs
        WHERE status IN {OPEN} AND deadline_at_us IS NOT NULL AND deadline_at_us <= {{now}}
        ORDER BY deadline_at_us LIMIT :limit::int {{skip_locked}}
    {{end_ids}}
    RETURNING id, run_id, workflow, status
    """,
    writes=True,
)
UNLIMITED_ATTEMPTS = 2**31


def claimed_run(row: Row) -> ClaimedRun:
    """Read a row of ``CLAIM_COLUMNS`` and the database's instant."""
    lease = Lease(run_pk=row[0], run_id=row[1], owner=row[2], epoch=row[3])
    return ClaimedRun(
        lease=lease,
        workflow=row[4],
        version=row[5],
        generation=row[6],
        recovery_attempts=row[7],
        namespace=row[8],
        partition=row[9],
        priority=row[10],
        input=row[11],
        input_shape=row[12],
        claimed_at_us=row[13],
    )


class RunVerbs:
    """Start, claim, end and recover runs."""

    session: Session

    @mutating
    def start_runs(self, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs; a run whose id exists is left as it is and reported.

        Args:
            runs: What to create, in this order.
        """
        return [self._start(run) for run in runs]

    def _start(self, run: NewRun) -> Started:
        params: dict[str, Any] = {
            "run_id": run.run_id,
            "workflow": run.workflow,
            "version": run.version,
            "origin": run.origin,
            "namespace": run.namespace,
            "partition": run.partition,
            "priority": run.priority,
            "tags": run.tags,
            "input": run.input,
            "input_shape": run.input_shape,
            "timeout_us": run.execution_timeout_us,
        }
        while True:
            rows = self.session.execute(START, params)
            if rows:
                return Started(
                    run_pk=rows[0][0],
                    run_id=run.run_id,
                    created=True,
                    workflow=run.workflow,
                    input=run.input,
                    status=RunStatus.PENDING,
                )
            existing = self.read_run(run.run_id)
            if existing is not None:
                return Started(
                    run_pk=existing.run_pk,
                    run_id=run.run_id,
                    created=False,
                    workflow=existing.workflow,
                    input=existing.input,
                    status=existing.status,
                )

    def read_run(self, run_id: str) -> RunRecord | None:
        """Return the run with this id, or ``None``."""
        return self._record(self.session.execute(READ, {"run_id": run_id}))

    def read_run_by_pk(self, run_pk: int) -> RunRecord | None:
        """Return the run with this surrogate key, or ``None``."""
        return self._record(self.session.execute(READ_BY_PK, {"pk": run_pk}))

    @staticmethod
    def _record(rows: Sequence[Row]) -> RunRecord | None:
        if not rows:
            return None
        row = rows[0]
        return RunRecord(
            run_pk=row[0],
            run_id=row[1],
            workflow=row[2],
            version=row[3],
            status=RunStatus(row[4]),
            input=row[5],
            output=row[6],
            error=row[7],
            generation=row[8],
            note=row[9],
            waiting_on=row[10],
            lease_owner=row[11],
            lease_epoch=row[12],
            namespace=row[13],
        )

    @mutating
    def claim_runs(self, owner: str, interest: Interest, *, lease_us: int, limit: int) -> list[ClaimedRun]:
        """Take up to ``limit`` pending or due runs, oldest first, together with their leases."""
        params = {
            "owner": owner,
            "lease_us": lease_us,
            "limit": limit,
            "namespace": interest.namespace,
            **self.session.dialect.bind_rows(WORKFLOWS, interest.workflows),
        }
        return [claimed_run(row) for row in self.session.execute(CLAIM, params)]

    def adopt_runs(self, owner: str, known: Iterable[int], *, lease_us: int) -> list[ClaimedRun]:
        """Return what this instance holds in the store and does not know of: a claim whose answer was lost.

        Only leases that have not been renewed for a third of their length count: younger ones may be on their way.
        """
        params = {"owner": owner, "known": self.session.dialect.bind_list(tuple(known)), "lease_us": lease_us}
        return [claimed_run(row) for row in self.session.execute(ADOPT, params)]

    def read_inputs(self, run_pks: Sequence[int]) -> dict[int, str]:
        """Return the inputs of runs by surrogate key."""
        rows = self.session.execute(INPUTS, {"pks": self.session.dialect.bind_list(run_pks)})
        return {row[0]: row[1] for row in rows}

    @mutating
    def cancel_run(self, run_id: str, error: str) -> bool:
        """End an open run as cancelled, whoever holds it; the holder's next write meets a higher epoch.

        Returns:
            Whether this call ended it.
        """
        return self._script(CANCEL, {"run_id": run_id, "error": error}).row is not None

    @mutating
    def retry_run(self, run_id: str, *, generation: int, failed_seq: int | None) -> bool:
        """Put a failed, dead or cancelled run back in the queue without what had not succeeded, and without its tasks.

        Args:
            run_id: Which run.
            generation: The generation that was looked at; another retry in between makes this one do nothing.
            failed_seq: The position whose failure ended the run, if it is known. What the body did after that failure
                goes too, since it may not do it again; what was dispatched together with it and succeeded stays, and
                what failed beside it is tried again, unless the body did something else in between.
        """
        params = {"run_id": run_id, "generation": generation, "failed_seq": failed_seq}
        return self._script(RETRY, params).row is not None

    def _script(self, script: Script, params: dict[str, Any]) -> Outcome:
        return run_script(self.session, script, params)

    @mutating
    def recover_runs(self, *, max_attempts: int | None, limit: int, error: str) -> list[Recovered]:
        """Put runs whose lease ran out back in the queue, oldest first; ``dead`` beyond ``max_attempts``."""
        limit_attempts = UNLIMITED_ATTEMPTS if max_attempts is None else max_attempts
        with self.session.transaction():
            rows = self.session.execute(RECOVER, {"max_attempts": limit_attempts, "limit": limit})
            recovered = [
                Recovered(run_pk=row[0], run_id=row[1], workflow=row[2], status=RunStatus(row[3])) for row in rows
            ]
            dead = [run.run_pk for run in recovered if run.status is RunStatus.DEAD]
            if dead:
                self.session.execute(BURY, {"error": error, "pks": self.session.dialect.bind_list(dead)})
        return recovered

    @mutating
    def expire_runs(self, *, limit: int, error: str) -> list[Recovered]:
        """End runs whose execution time limit has passed."""
        rows = self.session.execute(EXPIRE, {"limit": limit, "error": error})
        return [Recovered(run_pk=row[0], run_id=row[1], workflow=row[2], status=RunStatus(row[3])) for row in rows]

    @mutating
    def fail_suspended(self, run_pk: int, *, generation: int, error: str) -> bool:
        """End a suspended run as failed, unless it is being executed again; return whether it was done."""
        params = {"pk": run_pk, "generation": generation, "error": error}
        return bool(self.session.execute(FAIL_SUSPENDED, params))
