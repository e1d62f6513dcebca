"""What verbs take and return: frozen records, never model instances."""

from __future__ import annotations

from dataclasses import dataclass

from durable.core.states import CheckpointKind, CheckpointStatus, RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be created."""

    run_id: str
    workflow: str
    version: str
    input: str
    input_shape: str
    origin: str = ""
    namespace: str = "default"
    partition: str = ""
    priority: int = 0
    tags: str = "[]"
    execution_timeout_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What became of a ``NewRun``: created, or the run that had the id before."""

    run_pk: int
    run_id: str
    created: bool
    workflow: str
    input: str
    status: RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to execute a run; every write of its holder names all of it."""

    run_pk: int
    run_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run with the lease under which it was taken. ``input`` is there only for a run never taken before."""

    lease: Lease
    workflow: str
    version: str
    generation: int
    recovery_attempts: int
    namespace: str
    partition: str
    priority: int
    input: str | None
    input_shape: str
    claimed_at_us: int

    @property
    def fresh(self) -> bool:
        """Nobody held the run before, so it has no history."""
        return self.lease.epoch == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWrite:
    """A checkpoint to be written; it never changes one that is settled."""

    run_pk: int
    seq: int
    name: str
    kind: CheckpointKind
    status: CheckpointStatus
    input: str | None = None
    output: str | None = None
    error: str | None = None
    attempts: int = 0
    policy: str | None = None
    worker_group: str | None = None
    events: str | None = None
    wake_at_us: int | None = None
    parallel_group: int | None = None
    enqueued_at_us: int | None = None
    started_at_us: int | None = None
    finished_at_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message of the ``db`` transport to be inserted."""

    queue: str
    kind: str
    body: str
    run_pk: int | None = None
    seq: int | None = None
    dedupe_key: str | None = None
    namespace: str = "default"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """A message that this instance has taken, with the state of what it is about at the time of the taking."""

    id: int
    queue: str
    kind: str
    body: str
    run_pk: int | None
    seq: int | None
    takes: int
    run_status: RunStatus | None
    checkpoint_status: CheckpointStatus | None
    checkpoint_attempts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn leaves its run, and all that it writes with it."""

    lease: Lease
    status: RunStatus
    output: str | None = None
    error: str | None = None
    wake_at_us: int | None = None
    waiting_on: str = ""
    note: str = ""
    checkpoints: tuple[CheckpointWrite, ...] = ()
    messages: tuple[OutgoingMessage, ...] = ()
    waiters: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The outcome of one attempt of a dispatched step.

    ``retry_at_us`` is set when the attempt failed and another is due then; ``claim`` asks for the run itself, if it is
    free.
    """

    run_id: str
    seq: int
    attempt: int
    status: CheckpointStatus
    output: str | None = None
    error: str | None = None
    events: str | None = None
    started_at_us: int | None = None
    retry_at_us: int | None = None
    message_id: int | None = None
    claim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a settlement did: to the checkpoint, and to the run.

    ``claimed`` is the run under the lease that the settling instance has now: granted by this settlement, by an earlier
    one whose answer was lost, or before that; ``stamped_owner`` is who had the run before this settlement.
    """

    run_pk: int | None
    written: bool
    claimed: ClaimedRun | None = None
    stamped_owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as callers see it."""

    run_pk: int
    run_id: str
    workflow: str
    version: str
    status: RunStatus
    input: str
    output: str | None
    error: str | None
    generation: int
    note: str
    waiting_on: str
    lease_owner: str | None
    lease_epoch: int
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewedLease:
    """A lease that was renewed, and whether a wake met it in the meantime."""

    run_pk: int
    epoch: int
    stamped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What there is to do now, and when next."""

    now_us: int
    runs_due: bool
    messages_ready: bool
    overdue: bool
    next_at_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A run whose holder died: back in the queue, or dead."""

    run_pk: int
    run_id: str
    workflow: str
    status: RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What an instance can take: which workflows, which queues, of which namespace (``None``: all)."""

    workflows: tuple[tuple[str, str], ...] = ()
    queues: tuple[str, ...] = ()
    namespace: str | None = None
    drive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSignal:
    """A signal to be kept; ``key`` makes a repeated send harmless."""

    token: str
    key: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSignal:
    """What became of a wait: its settled checkpoint, a suspended run, or a lost lease.

    All unset: the run carries a stamp and keeps its lease.
    """

    checkpoint: CheckpointWrite | None = None
    suspended: bool = False
    lost: bool = False
