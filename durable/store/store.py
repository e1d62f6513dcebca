"""The store: all verbs over one seam."""

from __future__ import annotations

from durable.store.leases import LeaseVerbs
from durable.store.messages import MessageVerbs
from durable.store.reads import ReadVerbs
from durable.store.runs import RunVerbs
from durable.store.seam import Session
from durable.store.signals import SignalVerbs
from durable.store.steps import StepVerbs


class Store(RunVerbs, SignalVerbs, StepVerbs, MessageVerbs, LeaseVerbs, ReadVerbs):
    """The database that holds runs and checkpoints.

    Args:
        session: How the calling thread reaches it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    def verbs(cls) -> tuple[str, ...]:
        """Return the names of all verbs."""
        return tuple(name for name in dir(cls) if not name.startswith("_") and name not in {"verbs", "mutating_verbs"})

    @classmethod
    def mutating_verbs(cls) -> tuple[str, ...]:
        """Return the names of the verbs that change rows."""
        return tuple(name for name in cls.verbs() if getattr(getattr(cls, name), "mutating", False))
