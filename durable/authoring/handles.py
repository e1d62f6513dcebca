"""The handle of a run, as code outside a body sees it. The engine implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from durable.core.durations import Duration
from durable.core.failure import Failure
from durable.core.states import RunStatus

R_co = TypeVar("R_co", covariant=True)


class Run(ABC, Generic[R_co]):
    """Follow and steer one run. Every property is read afresh from the store."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Return the run's id."""

    @property
    @abstractmethod
    def status(self) -> RunStatus:
        """Return where the run stands.

        Raises:
            RunNotFound: The run was deleted.
        """

    @property
    @abstractmethod
    def failure(self) -> Failure | None:
        """Return what ended the run, or None while it lives or when it completed.

        Raises:
            RunNotFound: The run was deleted.
        """

    @abstractmethod
    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end of the run and return what the workflow returned.

        Args:
            timeout: How long to wait; None waits for ever, 0 only looks.

        Raises:
            RunFailed: The body raised.
            RunCancelled: The run was cancelled.
            RunDead: Its process died too often.
            ResultTimeout: It had not ended in time; it goes on.
            OperationRefused: The run was started in a transaction that is still open, so it cannot end.
            RunNotFound: The run was deleted.
        """

    @abstractmethod
    async def aresult(
        self,
        timeout: Duration | None = None,  # the twin takes what ``result`` takes
    ) -> R_co:
        """Wait for the end of the run; see ``result``."""

    @abstractmethod
    async def astatus(self) -> RunStatus:
        """Return where the run stands; see ``status``."""

    @abstractmethod
    def signal(self, token: str, payload: Any = None) -> None:
        """Send a signal to whoever waits for the token.

        Args:
            token: What the body waits for.
            payload: Any value that JSON can carry.

        Raises:
            PayloadError: The payload cannot be carried.
        """

    @abstractmethod
    async def asignal(self, token: str, payload: Any = None) -> None:
        """Send a signal; see ``signal``."""

    @abstractmethod
    def cancel(self, *, compensate: bool = False) -> None:
        """Ask the run to stop.

        Args:
            compensate: Whether the compensations of what it completed run first.

        Raises:
            WrongState: The run has ended.
            RunNotFound: The run was deleted.
        """

    @abstractmethod
    async def acancel(self, *, compensate: bool = False) -> None:
        """Ask the run to stop; see ``cancel``."""

    @abstractmethod
    def retry(self) -> None:
        """Put a failed, dead or cancelled run back in the queue, keeping its completed steps.

        Raises:
            WrongState: The run has not ended, or has completed.
            RunNotFound: The run was deleted.
        """

    @abstractmethod
    async def aretry(self) -> None:
        """Put the run back in the queue; see ``retry``."""
