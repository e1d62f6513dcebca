"""Reads: the look of an idle worker, histories, the database's instant, the scan for orphans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from durable.core.states import CheckpointKind, CheckpointStatus
from durable.replay.history import CheckpointRecord
from durable.store.messages import READY
from durable.store.records import Interest, Look
from durable.store.runs import MINE, OPEN, WORKFLOWS
from durable.store.seam import Row, Session, Statement

HISTORY_COLUMNS = (
    "run_pk, seq, name, kind, status, input, output, error, attempts, policy, worker_group, wake_at_us, "
    "parallel_group, last_heartbeat_at_us, beat_by, enqueued_at_us, started_at_us, finished_at_us, settled_order"
)
HISTORY = Statement(
    f"SELECT {HISTORY_COLUMNS} FROM durable_step_checkpoints WHERE run_pk {{list:pks:bigint}} ORDER BY run_pk, seq"
)
HISTORY_FROM = Statement(
    f"""
    SELECT {HISTORY_COLUMNS} FROM durable_step_checkpoints WHERE run_pk = :pk::bigint AND seq >= :seq::int ORDER BY seq
    """
)
NOW = Statement("SELECT {clock}")
LOOK = Statement(
    f"""
    SELECT {{now}},
        EXISTS (
            SELECT 1 FROM durable_workflow_runs
            WHERE status IN ('pending', 'suspended') AND wake_at_us <= {{now}} AND {MINE}
        ),
        EXISTS (
            SELECT 1 FROM durable_transport_messages
            WHERE queue {{list:queues:text}} AND {READY}
        ),
        (SELECT MIN(wake_at_us) FROM durable_workflow_runs
            WHERE status IN ('pending', 'suspended', 'blocked') AND wake_at_us > {{now}}),
        (SELECT MIN(lease_expires_at_us) FROM durable_workflow_runs WHERE status IN ('running', 'cancelling')),
        (SELECT MIN(held_until_us) FROM durable_transport_messages WHERE held_by IS NOT NULL),
        (SELECT MIN(deadline_at_us) FROM durable_workflow_runs
            WHERE status IN {OPEN} AND deadline_at_us IS NOT NULL)
    """,
    sources=(WORKFLOWS,),
)
ORPHANS = Statement(
    f"""
    SELECT run_id FROM durable_workflow_runs
    WHERE status IN {OPEN} AND NOT (
        (status IN ('running', 'cancelling') AND lease_expires_at_us IS NOT NULL)
        OR (status IN ('pending', 'suspended', 'blocked') AND wake_at_us IS NOT NULL)
        OR wake_requested_at_us IS NOT NULL
    )
    """
)


def checkpoint_record(row: Row) -> CheckpointRecord:
    """Read a row of ``HISTORY_COLUMNS``."""
    return CheckpointRecord(
        run_pk=row[0],
        seq=row[1],
        name=row[2],
        kind=CheckpointKind(row[3]),
        status=CheckpointStatus(row[4]),
        input=row[5],
        output=row[6],
        error=row[7],
        attempts=row[8],
        policy=row[9],
        worker_group=row[10],
        wake_at_us=row[11],
        parallel_group=row[12],
        last_heartbeat_at_us=row[13],
        beat_by=row[14],
        enqueued_at_us=row[15],
        started_at_us=row[16],
        finished_at_us=row[17],
        settled_order=row[18],
    )


class ReadVerbs:
    """Read, and change nothing."""

    session: Session

    def read_now(self) -> int:
        """Return the database's instant."""
        instant: int = self.session.execute(NOW, {})[0][0]
        return instant

    def read_histories(self, run_pks: Sequence[int]) -> dict[int, list[CheckpointRecord]]:
        """Return the checkpoints of runs in order, in one statement."""
        histories: defaultdict[int, list[CheckpointRecord]] = defaultdict(list)
        for row in self.session.execute(HISTORY, {"pks": self.session.dialect.bind_list(run_pks)}):
            histories[row[0]].append(checkpoint_record(row))
        return histories

    def read_history_from(self, run_pk: int, seq: int) -> list[CheckpointRecord]:
        """Return the checkpoints of a run from a position on."""
        return [checkpoint_record(row) for row in self.session.execute(HISTORY_FROM, {"pk": run_pk, "seq": seq})]

    def look(self, interest: Interest) -> Look:
        """Return what there is to do now and when next, in one statement."""
        dialect = self.session.dialect
        params = {
            "namespace": interest.namespace,
            "queues": dialect.bind_list(interest.queues),
            **dialect.bind_rows(WORKFLOWS, interest.workflows),
        }
        now_us, runs, messages, *instants = self.session.execute(LOOK, params)[0]
        known = [instant for instant in instants if instant is not None]
        overdue = any(instant <= now_us for instant in known)
        return Look(
            now_us=now_us,
            runs_due=bool(runs),
            messages_ready=bool(messages),
            overdue=overdue,
            next_at_us=min((instant for instant in known if instant > now_us), default=None),
        )

    def find_orphans(self) -> list[str]:
        """Return open runs that nothing will look at again; there must be none at any instant."""
        return [row[0] for row in self.session.execute(ORPHANS, {})]
