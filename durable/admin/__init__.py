"""The pages of this app in Django's admin. They read models and write through ``durable.api``, and know no engine.

Everything that a run carries is text of strangers: it is escaped wherever it is shown.
"""

from durable.admin.messages import TransportMessageAdmin
from durable.admin.runs import WorkflowRunAdmin
from durable.admin.signals import BufferedSignalAdmin, SignalWaiterAdmin

__all__ = ["BufferedSignalAdmin", "SignalWaiterAdmin", "TransportMessageAdmin", "WorkflowRunAdmin"]
