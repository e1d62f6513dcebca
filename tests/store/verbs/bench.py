"""A store on the bench: shorthands for records, and looks at rows past all verbs."""

from __future__ import annotations

import itertools
from typing import Any

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus
from durable.store.records import (
    CheckpointWrite,
    ClaimedRun,
    Interest,
    Lease,
    NewRun,
    OutgoingMessage,
    Settlement,
    TurnEnd,
)
from durable.store.seam import Statement
from durable.store.store import Store

LEASE_US = 30_000_000
FAR_US = 4_000_000_000_000_000
EVERYTHING = Interest(workflows=(("w", "1"), ("v", "1")), queues=("runs", "tasks:a", "tasks:b"))
RUN_COLUMNS = [
    "id",
    "status",
    "lease_owner",
    "lease_epoch",
    "lease_expires_at_us",
    "wake_at_us",
    "wake_requested_at_us",
    "generation",
    "pending_seq",
    "recovery_attempts",
    "output",
    "error",
    "note",
    "waiting_on",
    "started_at_us",
    "finished_at_us",
    "deadline_at_us",
    "updated_at_us",
]
CHECKPOINT_COLUMNS = [
    "seq",
    "name",
    "kind",
    "status",
    "input",
    "output",
    "error",
    "attempts",
    "policy",
    "wake_at_us",
    "enqueued_at_us",
    "started_at_us",
    "finished_at_us",
    "progress",
    "last_heartbeat_at_us",
    "beat_by",
]


class Bench:
    """One store and shorthands around it."""

    def __init__(self, store: Store, clock: list[int] | None) -> None:
        self.store = store
        self.clock = clock
        self._ids = itertools.count(1)

    def sql(self, text: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run SQL past all verbs."""
        return list(self.store.session.execute(Statement(text, writes=not text.startswith("SELECT")), params))

    def pass_time(self) -> None:
        """Let a microsecond pass at least."""
        if self.clock is not None:
            self.clock[0] += 1_000

    def start(self, run_id: str | None = None, **facts: Any) -> int:
        """Start a run; return its surrogate key."""
        self.pass_time()
        run = {"workflow": "w", "version": "1", "input": "null", "input_shape": "none", **facts}
        return self.store.start_runs([NewRun(run_id=run_id or f"run-{next(self._ids)}", **run)])[0].run_pk

    def claim(self, owner: str = "me", *, limit: int = 64, interest: Interest = EVERYTHING) -> list[ClaimedRun]:
        """Claim runs."""
        return self.store.claim_runs(owner, interest, lease_us=LEASE_US, limit=limit)

    def held(self, owner: str = "me", **facts: Any) -> Lease:
        """Start a run and claim it; return the lease."""
        pk = self.start(**facts)
        self.set_run(pk, wake_at_us=1)
        lease = self.claim(owner, limit=1)[0].lease
        assert lease.run_pk == pk
        return lease

    def suspended(self, *, wake_at_us: int = FAR_US, **facts: Any) -> Lease:
        """Start a run, claim it and suspend it; return the lease that it had."""
        lease = self.held(**facts)
        assert self.store.end_turns([TurnEnd(lease=lease, status=RunStatus.SUSPENDED, wake_at_us=wake_at_us)]) == [True]
        return lease

    def run(self, pk: int) -> dict[str, Any]:
        """Return a run's row."""
        row = self.sql(f"SELECT {', '.join(RUN_COLUMNS)} FROM durable_workflow_runs WHERE id = :pk", pk=pk)[0]
        return dict(zip(RUN_COLUMNS, row, strict=True))

    def set_run(self, pk: int, **values: Any) -> None:
        """Change a run's row."""
        changes = ", ".join(f"{name} = :{name}" for name in values)
        self.sql(f"UPDATE durable_workflow_runs SET {changes} WHERE id = :pk RETURNING id", pk=pk, **values)

    def checkpoints(self, pk: int) -> list[dict[str, Any]]:
        """Return a run's checkpoints."""
        columns = ", ".join(CHECKPOINT_COLUMNS)
        rows = self.sql(f"SELECT {columns} FROM durable_step_checkpoints WHERE run_pk = :pk ORDER BY seq", pk=pk)
        return [dict(zip(CHECKPOINT_COLUMNS, row, strict=True)) for row in rows]

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        count: int = self.sql(f"SELECT count(*) FROM durable_{table}")[0][0]
        return count

    def everything(self) -> list[Any]:
        """Return all that the tables hold, to see whether anything was written."""
        return [
            self.sql(f"SELECT * FROM durable_{table} ORDER BY 1, 2")
            for table in (
                "workflow_runs",
                "step_checkpoints",
                "signal_waiters",
                "buffered_signals",
                "transport_messages",
            )
        ]

    def message(self, queue: str = "tasks:a", **facts: Any) -> int:
        """Send a message; return its id."""
        self.store.send_messages([OutgoingMessage(queue=queue, kind=facts.pop("kind", "task"), body="{}", **facts)])
        newest: int = self.sql("SELECT max(id) FROM durable_transport_messages")[0][0]
        return newest


def local(lease: Lease, seq: int = 0, **facts: Any) -> CheckpointWrite:
    """Return a completed local checkpoint."""
    values: dict[str, Any] = {
        "name": "a",
        "kind": CheckpointKind.LOCAL,
        "status": CheckpointStatus.COMPLETED,
        "output": "1",
        **facts,
    }
    return CheckpointWrite(run_pk=lease.run_pk, seq=seq, **values)


def remote(lease: Lease, seq: int = 0, **facts: Any) -> CheckpointWrite:
    """Return a dispatched step that waits for its result."""
    values = {"status": CheckpointStatus.PENDING, "output": None, "attempts": 1, "enqueued_at_us": 1, **facts}
    return local(lease, seq, kind=CheckpointKind.REMOTE, **values)


def result(lease: Lease, seq: int = 0, **facts: Any) -> Settlement:
    """Return the settlement of a first attempt."""
    values: dict[str, Any] = {"attempt": 1, "status": CheckpointStatus.COMPLETED, "output": "7", **facts}
    return Settlement(run_id=lease.run_id, seq=seq, **values)
