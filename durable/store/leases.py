"""Renewal of leases. It skips locked rows: an open transaction on one run must not stop the renewal of the others."""

from __future__ import annotations

from collections.abc import Sequence

from durable.store.marks import mutating
from durable.store.records import RenewedLease
from durable.store.seam import Session, Statement

RENEW = Statement(
    """
    UPDATE durable_workflow_runs SET lease_expires_at_us = {clock} + :lease_us::bigint
    WHERE lease_owner = :owner AND status IN ('running', 'cancelling') AND lease_expires_at_us > {clock} AND id {in_ids}
        SELECT id FROM durable_workflow_runs
        WHERE id {list:pks:bigint} AND lease_owner = :owner ORDER BY id {skip_locked}
    {end_ids}
    RETURNING id, lease_epoch, wake_requested_at_us
    """,
    writes=True,
)
STANDING = Statement(
    """
    SELECT id, lease_epoch FROM durable_workflow_runs
    WHERE id {list:pks:bigint} AND lease_owner = :owner AND status IN ('running', 'cancelling')
        AND lease_expires_at_us > {clock}
    """
)


class LeaseVerbs:
    """Keep what was granted."""

    session: Session

    @mutating
    def renew_leases(self, owner: str, run_pks: Sequence[int], *, lease_us: int) -> list[RenewedLease]:
        """Prolong the leases that this instance holds on these runs; rows that are locked now are left out."""
        params = {"owner": owner, "pks": self.session.dialect.bind_list(run_pks), "lease_us": lease_us}
        rows = self.session.execute(RENEW, params)
        # SQLite 3.40 answers "IS NOT NULL" in RETURNING wrongly, so the column itself is asked for
        return [RenewedLease(run_pk=row[0], epoch=row[1], stamped=row[2] is not None) for row in rows]

    def standing_leases(self, owner: str, run_pks: Sequence[int]) -> dict[int, int]:
        """Return the epochs of the leases that still stand, whatever locks are on the rows."""
        params = {"owner": owner, "pks": self.session.dialect.bind_list(run_pks)}
        return {row[0]: row[1] for row in self.session.execute(STANDING, params)}
