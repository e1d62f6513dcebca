"""Verbs of a run's holder: record checkpoints, begin and end turns. Every one carries the fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from durable.core.states import TERMINAL
from durable.store.checkpoints import (
    CHECKPOINTS,
    FENCE,
    INSERT_MANY,
    INSERT_ONE,
    UNLESS_SETTLED,
    checkpoint_params,
    checkpoint_row,
)
from durable.store.dialects import RowSource
from durable.store.marks import mutating
from durable.store.messages import INSERT_MESSAGES, MESSAGES, message_row
from durable.store.records import CheckpointWrite, Lease, OutgoingMessage, TurnEnd
from durable.store.scripts import Part, Script, run_script, script_of
from durable.store.seam import Session, Statement

RECORD_ONE = Statement(INSERT_ONE + UNLESS_SETTLED, writes=True)
NOTE_RUNNING = Statement(
    INSERT_ONE.replace("{lock}", "{skip_locked}") + "ON CONFLICT (run_pk, seq) DO NOTHING RETURNING seq", writes=True
)
HOLDER = f"""
    UPDATE durable_workflow_runs SET updated_at_us = {{now}}
    WHERE id = :pk::bigint AND {FENCE}
    RETURNING id, settled_steps
"""
HOLD = HOLDER.replace("updated_at_us = {now}", "updated_at_us = {now}, waiting_on = :waiting_on")
WRITE_CHECKPOINTS = Part(text=INSERT_MANY + UNLESS_SETTLED, sources=(CHECKPOINTS,))
WRITE_MESSAGES = Part(text=INSERT_MESSAGES, sources=(MESSAGES,))
WAITERS = RowSource(name="waiters", columns={"seq": "bigint", "token": "text"})
WRITE_WAITERS = Part(
    text="""
    INSERT INTO durable_signal_waiters (run_pk, seq, token)
    SELECT :pk::bigint, seq, token FROM {waiters} WHERE {guarded}
    ON CONFLICT (run_pk, seq, token) DO NOTHING
    RETURNING 1
    """,
    sources=(WAITERS,),
)
END = f"""
    UPDATE durable_workflow_runs SET
        status = :run_status, output = :run_output, error = :run_error, wake_at_us = :run_wake_at_us::bigint,
        waiting_on = :waiting_on, note = :note, lease_owner = NULL, lease_expires_at_us = NULL, updated_at_us = {{now}},
        finished_at_us = CASE WHEN :terminal::boolean THEN {{now}} END,
        wake_requested_at_us = NULL
    WHERE id = :pk::bigint AND {FENCE} AND (:terminal::boolean OR wake_requested_at_us IS NULL)
    RETURNING id, settled_steps
"""
BEGIN_TURN = Statement(
    f"""
    UPDATE durable_workflow_runs SET wake_requested_at_us = NULL, waiting_on = ''
    WHERE id = :pk::bigint AND {FENCE}
    RETURNING {{now}}
    """,
    writes=True,
)
CLOCK = Statement("SELECT {clock}")
RENEW_STANDING = Statement(
    """
    UPDATE durable_workflow_runs SET lease_expires_at_us = {clock} + :lease_us::bigint
    WHERE status IN ('running', 'cancelling') AND lease_owner = :owner AND lease_expires_at_us > :began_us::bigint
        AND lease_expires_at_us < {clock} + :lease_us::bigint
    """,
    writes=True,
)
HOLD_STANDING = Statement(
    """
    UPDATE durable_transport_messages SET held_until_us = {clock} + :lease_us::bigint
    WHERE held_by IS NOT NULL AND held_by = :owner AND held_until_us > :began_us::bigint
        AND held_until_us < {clock} + :lease_us::bigint
    """,
    writes=True,
)
HOLDS = Statement(
    """
    SELECT lease_owner, lease_epoch, status, lease_expires_at_us > {clock} FROM durable_workflow_runs
    WHERE id = :pk::bigint
    """
)


def lease_params(lease: Lease) -> dict[str, Any]:
    """Return the parameters of the fence."""
    return {"pk": lease.run_pk, "owner": lease.owner, "epoch": lease.epoch}


class TurnVerbs:
    """Write under a lease."""

    session: Session

    @mutating
    def record(
        self, lease: Lease, checkpoints: Sequence[CheckpointWrite], messages: Sequence[OutgoingMessage] = ()
    ) -> int:
        """Write checkpoints (and messages) under the lease, in one commit.

        Returns:
            How many were written; fewer than given means that some were settled before, or that the lease is lost.
        """
        if len(checkpoints) == 1 and not messages:
            params = lease_params(lease) | checkpoint_params(checkpoints[0])
            return len(self.session.execute(RECORD_ONE, params))
        script, params = self._holder_script(HOLDER, checkpoints, messages)
        outcome = run_script(self.session, script, params | lease_params(lease))
        return outcome.counts[0] if outcome.row else 0

    @mutating
    def hold_turn(
        self,
        lease: Lease,
        checkpoints: Sequence[CheckpointWrite],
        messages: Sequence[OutgoingMessage],
        *,
        waiting_on: str,
    ) -> int | None:
        """Write what a turn dispatched, and that its body waits now, with the lease kept.

        A holder that dies while its body waits is recovered without being counted.

        Returns:
            How many checkpoints were written, ``None`` when the lease is lost.
        """
        script, params = self._holder_script(HOLD, checkpoints, messages)
        params |= lease_params(lease) | {"waiting_on": waiting_on}
        outcome = run_script(self.session, script, params)
        if outcome.row is None:
            return None
        return outcome.counts[0] if checkpoints else 0

    @mutating
    def note_running(self, lease: Lease, checkpoint: CheckpointWrite) -> bool:
        """Show that a local step is still running; never touches a checkpoint that is there."""
        params = lease_params(lease) | checkpoint_params(checkpoint)
        return bool(self.session.execute(NOTE_RUNNING, params))

    @mutating
    def begin_turn(self, lease: Lease) -> int | None:
        """Clear the stamp before the turn reads; return the database's instant, or ``None`` when the lease is lost."""
        rows = self.session.execute(BEGIN_TURN, lease_params(lease))
        return rows[0][0] if rows else None

    @mutating
    def end_turns(self, ends: Sequence[TurnEnd]) -> list[bool]:
        """End turns, each in one transaction: the run's row, checkpoints, messages and waiters.

        Returns:
            For each, whether it was done. A turn that suspends is refused while the run carries a stamp; any is
            refused when the lease is lost. ``holds`` tells which.
        """
        return [self._end(end) for end in ends]

    def _end(self, end: TurnEnd) -> bool:
        terminal = end.status in TERMINAL
        script, params = self._holder_script(END, end.checkpoints, end.messages, end.waiters)
        params |= lease_params(end.lease)
        params |= {
            "run_status": end.status.value,
            "run_output": end.output,
            "run_error": end.error,
            "run_wake_at_us": end.wake_at_us,
            "waiting_on": end.waiting_on,
            "note": end.note,
            "terminal": terminal,
        }
        return run_script(self.session, script, params).row is not None

    def _holder_script(
        self,
        guard: str,
        checkpoints: Sequence[CheckpointWrite],
        messages: Sequence[OutgoingMessage],
        waiters: Sequence[tuple[int, str]] = (),
    ) -> tuple[Script, dict[str, Any]]:
        parts: list[Part] = []
        params: dict[str, Any] = {}
        bind = self.session.dialect.bind_rows
        if checkpoints:
            parts.append(WRITE_CHECKPOINTS)
            params |= bind(CHECKPOINTS, [checkpoint_row(write) for write in checkpoints])
        if messages:
            parts.append(WRITE_MESSAGES)
            params |= bind(MESSAGES, [message_row(message) for message in messages])
        if waiters:
            parts.append(WRITE_WAITERS)
            params |= bind(WAITERS, waiters)
        return script_of(guard, 2, tuple(parts)), params

    def holds(self, lease: Lease) -> bool:
        """Tell whether the lease is still good by the database's clock."""
        rows = self.session.execute(HOLDS, {"pk": lease.run_pk})
        return bool(rows) and rows[0] == (lease.owner, lease.epoch, "running", True)

    def released(self, lease: Lease) -> bool:
        """Tell whether this holder has let go itself: recovery and cancel would have raised the epoch."""
        rows = self.session.execute(HOLDS, {"pk": lease.run_pk})
        return bool(rows) and rows[0][0] is None and rows[0][1] == lease.epoch

    @mutating
    def record_with(self, lease: Lease, work: Callable[[], CheckpointWrite], *, lease_us: int = 0) -> bool:
        """Run user code in a transaction and write its checkpoint as the last statement of it.

        Where the transaction keeps all other writers waiting, this instance could not renew its leases meanwhile, and
        nobody could take them: those that were good when it began are renewed with it.

        Args:
            lease: The fence.
            work: Runs the user's code and returns its checkpoint; what it raises rolls everything back.
            lease_us: Length of a lease.

        Returns:
            Whether it was committed; ``False`` rolled back: the position was settled before, or the lease is lost.
        """
        exclusive = self.session.is_exclusive()
        try:
            with self.session.atomic():
                began_us = self.session.execute(CLOCK, {})[0][0] if exclusive else 0
                params = lease_params(lease) | checkpoint_params(work())
                if exclusive:
                    standing = {"owner": lease.owner, "lease_us": lease_us, "began_us": began_us}
                    self.session.execute(RENEW_STANDING, standing)
                    self.session.execute(HOLD_STANDING, standing)
                if not self.session.execute(RECORD_ONE, params):
                    raise _NotRecordedError
        except _NotRecordedError:
            return False
        return True


class _NotRecordedError(Exception):
    """The checkpoint could not be written, so the transaction must not commit."""
