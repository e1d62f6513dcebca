"""The texts that write checkpoints; each leaves a settled one as it is.

``settled_order`` tells in which order the checkpoints of a run were settled, whoever settled them. A result takes an
even number from the counter on the run's row, under its lock; what the holder writes takes the odd number after it.
"""

from __future__ import annotations

from typing import Any

from durable.store.dialects import RowSource
from durable.store.records import CheckpointWrite

COLUMNS = (
    "seq, name, kind, status, input, output, error, attempts, policy, worker_group, events, wake_at_us, "
    "parallel_group, enqueued_at_us, started_at_us, finished_at_us"
)
FENCE = """lease_owner = :owner AND lease_epoch = :epoch::bigint AND status = 'running'
    AND lease_expires_at_us > {clock}"""
CHECKPOINTS = RowSource(
    name="checkpoints",
    columns={
        "seq": "bigint",
        "name": "text",
        "kind": "text",
        "status": "text",
        "input": "text",
        "output": "text",
        "error": "text",
        "attempts": "bigint",
        "policy": "text",
        "worker_group": "text",
        "events": "text",
        "wake_at_us": "bigint",
        "parallel_group": "bigint",
        "enqueued_at_us": "bigint",
        "started_at_us": "bigint",
        "finished_at_us": "bigint",
    },
)
UNLESS_SETTLED = """
    ON CONFLICT (run_pk, seq) DO UPDATE SET
        status = excluded.status, output = excluded.output, error = excluded.error, attempts = excluded.attempts,
        policy = COALESCE(excluded.policy, c.policy),
        worker_group = COALESCE(excluded.worker_group, c.worker_group), events = excluded.events,
        wake_at_us = excluded.wake_at_us, enqueued_at_us = excluded.enqueued_at_us,
        started_at_us = CASE WHEN excluded.enqueued_at_us IS NULL
            THEN COALESCE(c.started_at_us, excluded.started_at_us) END,
        finished_at_us = excluded.finished_at_us, settled_order = excluded.settled_order
    WHERE c.status IN ('pending', 'running')
    RETURNING seq
"""
SETTLED = "status IN ('completed', 'failed')"
INSERT_ONE = f"""
    INSERT INTO durable_step_checkpoints AS c (run_pk, {COLUMNS}, settled_order)
    SELECT r.id, :seq::int, :name, :kind, :status::text, :input, :output, :error, :attempts::int, :policy,
        :worker_group, :events, :wake_at_us::bigint, :parallel_group::int, :enqueued_at_us::bigint,
        :started_at_us::bigint, :finished_at_us::bigint,
        CASE WHEN :status::text IN ('completed', 'failed') THEN 2 * r.settled_steps + 1 END
    FROM durable_workflow_runs r WHERE r.id = :pk::bigint AND {FENCE}
    {{lock}}
"""
INSERT_MANY = f"""
    INSERT INTO durable_step_checkpoints AS c (run_pk, {COLUMNS}, settled_order)
    SELECT :pk::bigint, {COLUMNS}, CASE WHEN {SETTLED} THEN 2 * {{settled_steps}} + 1 END
    FROM {{checkpoints}} WHERE {{guarded}}
"""


def checkpoint_row(write: CheckpointWrite) -> tuple[Any, ...]:
    """Return the values of a checkpoint in the order of ``COLUMNS``."""
    return (
        write.seq,
        write.name,
        write.kind.value,
        write.status.value,
        write.input,
        write.output,
        write.error,
        write.attempts,
        write.policy,
        write.worker_group,
        write.events,
        write.wake_at_us,
        write.parallel_group,
        write.enqueued_at_us,
        write.started_at_us,
        write.finished_at_us,
    )


def checkpoint_params(write: CheckpointWrite) -> dict[str, Any]:
    """Return the values of a checkpoint by name."""
    return dict(zip(CHECKPOINTS.columns, checkpoint_row(write), strict=True))
