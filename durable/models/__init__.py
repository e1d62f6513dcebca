"""The tables. Fields, constraints, indexes and labels; the verbs live in ``durable.store``."""

from durable.models.checkpoints import StepCheckpoint
from durable.models.messages import TransportMessage
from durable.models.runs import WorkflowRun
from durable.models.signals import BufferedSignal, SignalWaiter

__all__ = ["BufferedSignal", "SignalWaiter", "StepCheckpoint", "TransportMessage", "WorkflowRun"]
