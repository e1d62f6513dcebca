"""The one place where steps are dispatched: first time, retry, after a timeout."""

from __future__ import annotations

import json

from durable.replay.decision import CallCommand
from durable.store.records import ClaimedRun
from durable.transports.base import DispatchedTask
from durable.wire.messages import RemoteTask

DEFAULT = "default"


def routing_token(queue: str, partition: str | None) -> str:
    """Return the name of the queue that serves a step: ``:`` becomes ``-``, and the partition follows an ``@``."""
    suffix = f"@{partition}" if partition and partition != DEFAULT else ""
    return queue.replace(":", "-") + suffix


def partition_of(claim: ClaimedRun, command: CallCommand, own_partition: str | None) -> str | None:
    """Return the partition of a dispatch: the step's, else the run's namespace, else this instance's."""
    if command.partition:
        return command.partition
    return claim.namespace if claim.namespace != DEFAULT else own_partition


def dispatch(claim: ClaimedRun, command: CallCommand, own_partition: str | None) -> DispatchedTask:
    """Return the task of one attempt of a step."""
    token = routing_token(command.queue, partition_of(claim, command, own_partition))
    task = RemoteTask(
        run_id=claim.lease.run_id,
        seq=command.seq,
        name=command.name,
        step_id=f"{claim.lease.run_id}:{command.seq}",
        group=token,
        input=json.loads(command.input),
        attempt=command.attempt,
        priority=command.priority,
    )
    return DispatchedTask(task=task, run_pk=claim.lease.run_pk, namespace=claim.namespace)
