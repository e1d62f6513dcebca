"""Verbs on the messages of the ``db`` transport: take, hold, release, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from durable.core.states import CheckpointStatus, RunStatus
from durable.store.dialects import RowSource
from durable.store.marks import mutating
from durable.store.records import HeldMessage, OutgoingMessage
from durable.store.seam import Row, Session, Statement

MESSAGES = RowSource(
    name="messages",
    columns={
        "queue": "text",
        "kind": "text",
        "body": "text",
        "run_pk": "bigint",
        "seq": "bigint",
        "dedupe_key": "text",
        "namespace": "text",
        "priority": "bigint",
    },
)
INSERT_MESSAGES = """
    INSERT INTO durable_transport_messages (
        queue, kind, body, run_pk, seq, dedupe_key, namespace, priority, visible_at_us, takes, created_at_us
    )
    SELECT queue, kind, body, run_pk, seq, dedupe_key, namespace, priority, {now}, 0, {now}
    FROM {messages} WHERE {guarded}
    ON CONFLICT (dedupe_key) DO NOTHING
    RETURNING 1
"""
SEND = Statement(INSERT_MESSAGES.replace("{guarded}", "TRUE"), writes=True, sources=(MESSAGES,))
MESSAGE_COLUMNS = """id, queue, kind, body, run_pk, seq, takes,
    (SELECT r.status FROM durable_workflow_runs r WHERE r.id = durable_transport_messages.run_pk),
    (SELECT c.status FROM durable_step_checkpoints c
        WHERE c.run_pk = durable_transport_messages.run_pk AND c.seq = durable_transport_messages.seq),
    (SELECT c.attempts FROM durable_step_checkpoints c
        WHERE c.run_pk = durable_transport_messages.run_pk AND c.seq = durable_transport_messages.seq)"""
READY = """held_by IS NULL AND visible_at_us <= {now}
    AND (:namespace::text IS NULL OR namespace = :namespace::text OR kind = 'wake')"""
TAKE_HEAD = """
    UPDATE durable_transport_messages SET
        held_by = :owner, held_until_us = {clock} + :lease_us::bigint, takes = takes + 1
    WHERE id {in_ids}
"""
TAKE_TAIL = f"""
    {{end_ids}}
    RETURNING {MESSAGE_COLUMNS}
"""
TAKE = Statement(
    f"""
    {TAKE_HEAD}
        SELECT id FROM durable_transport_messages WHERE queue {{list:queues:text}} AND {READY}
        ORDER BY id LIMIT :limit::int
    {TAKE_TAIL}
    """,
    postgresql=f"""
    {TAKE_HEAD}
        SELECT m.id FROM unnest(:queues::text[]) AS q(name) CROSS JOIN LATERAL (
            SELECT id FROM durable_transport_messages WHERE queue = q.name AND {READY}
            ORDER BY id LIMIT :limit::int {{skip_locked}}
        ) m ORDER BY m.id LIMIT :limit::int
    {TAKE_TAIL}
    """,
    writes=True,
)
ADOPT = Statement(
    f"""
    SELECT {MESSAGE_COLUMNS} FROM durable_transport_messages
    WHERE held_by IS NOT NULL AND held_by = :owner AND held_until_us > {{clock}}
        AND held_until_us < {{clock}} + :lease_us::bigint * 2 / 3 AND NOT (id {{list:known:bigint}})
    """
)
HOLD = Statement(
    """
    UPDATE durable_transport_messages SET held_until_us = {clock} + :lease_us::bigint
    WHERE held_by = :owner AND id {in_ids}
        SELECT id FROM durable_transport_messages WHERE id {list:ids:bigint} ORDER BY id {skip_locked}
    {end_ids}
    RETURNING id, (SELECT r.status FROM durable_workflow_runs r WHERE r.id = durable_transport_messages.run_pk)
    """,
    writes=True,
)
RELEASE_EXPIRED = Statement(
    """
    UPDATE durable_transport_messages SET held_by = NULL, held_until_us = NULL
    WHERE id {in_ids}
        SELECT id FROM durable_transport_messages WHERE held_by IS NOT NULL AND held_until_us <= {now}
        ORDER BY id LIMIT :limit::int {skip_locked}
    {end_ids}
    RETURNING id
    """,
    writes=True,
)
GIVE_BACK = Statement(
    """
    UPDATE durable_transport_messages SET
        held_by = NULL, held_until_us = NULL, takes = takes - 1, visible_at_us = {now} + :delay_us::bigint
    WHERE held_by = :owner AND id {list:ids:bigint}
    RETURNING id
    """,
    writes=True,
)
DELETE = Statement(
    "DELETE FROM durable_transport_messages WHERE held_by = :owner AND id {list:ids:bigint} RETURNING id", writes=True
)
SURVIVING = Statement("SELECT id FROM durable_transport_messages WHERE held_by = :owner AND id {list:ids:bigint}")


def message_row(message: OutgoingMessage) -> tuple[Any, ...]:
    """Return the values of a message in the order of ``MESSAGES``."""
    return (
        message.queue,
        message.kind,
        message.body,
        message.run_pk,
        message.seq,
        message.dedupe_key,
        message.namespace,
        message.priority,
    )


def held_message(row: Row) -> HeldMessage:
    """Read a row of ``MESSAGE_COLUMNS``."""
    return HeldMessage(
        id=row[0],
        queue=row[1],
        kind=row[2],
        body=row[3],
        run_pk=row[4],
        seq=row[5],
        takes=row[6],
        run_status=RunStatus(row[7]) if row[7] else None,
        checkpoint_status=CheckpointStatus(row[8]) if row[8] else None,
        checkpoint_attempts=row[9],
    )


class MessageVerbs:
    """Take, hold and release messages."""

    session: Session

    @mutating
    def send_messages(self, messages: Sequence[OutgoingMessage]) -> int:
        """Insert messages; one whose dedupe key is there already is left out. Return how many were inserted."""
        rows = [message_row(message) for message in messages]
        return len(self.session.execute(SEND, self.session.dialect.bind_rows(MESSAGES, rows)))

    @mutating
    def take_messages(
        self, owner: str, queues: Sequence[str], *, namespace: str | None, lease_us: int, limit: int
    ) -> list[HeldMessage]:
        """Take up to ``limit`` messages, oldest first, and hold them for ``lease_us``."""
        params = {
            "owner": owner,
            "queues": self.session.dialect.bind_list(queues),
            "namespace": namespace,
            "lease_us": lease_us,
            "limit": limit,
        }
        return sorted(map(held_message, self.session.execute(TAKE, params)), key=lambda message: message.id)

    def adopt_messages(self, owner: str, known: Iterable[int], *, lease_us: int) -> list[HeldMessage]:
        """Return what this instance holds and does not know of: a take whose answer was lost, not renewed since."""
        params = {"owner": owner, "known": self.session.dialect.bind_list(tuple(known)), "lease_us": lease_us}
        return [held_message(row) for row in self.session.execute(ADOPT, params)]

    @mutating
    def hold_messages(self, owner: str, ids: Sequence[int], *, lease_us: int) -> dict[int, RunStatus | None]:
        """Prolong holds; return the renewed ones with the status of the run they are about."""
        params = {"owner": owner, "ids": self.session.dialect.bind_list(ids), "lease_us": lease_us}
        rows = self.session.execute(HOLD, params)
        return {row[0]: RunStatus(row[1]) if row[1] else None for row in rows}

    def surviving_messages(self, owner: str, ids: Sequence[int]) -> frozenset[int]:
        """Return which of these this instance still holds, whatever locks are on them."""
        params = {"owner": owner, "ids": self.session.dialect.bind_list(ids)}
        return frozenset(row[0] for row in self.session.execute(SURVIVING, params))

    @mutating
    def release_expired_holds(self, *, limit: int) -> int:
        """Let go of messages whose taker has not renewed; return how many."""
        return len(self.session.execute(RELEASE_EXPIRED, {"limit": limit}))

    @mutating
    def give_back_messages(self, owner: str, ids: Sequence[int], *, delay_us: int = 0) -> int:
        """Put held messages back, not to be seen for ``delay_us``; the taking is not counted."""
        params = {"owner": owner, "ids": self.session.dialect.bind_list(ids), "delay_us": delay_us}
        return len(self.session.execute(GIVE_BACK, params))

    @mutating
    def delete_messages(self, owner: str, ids: Sequence[int]) -> int:
        """Delete held messages; return how many were there."""
        params = {"owner": owner, "ids": self.session.dialect.bind_list(ids)}
        return len(self.session.execute(DELETE, params))
