"""The one place through which a declared workflow reaches the engine.

References may not import the engine, which lives above them; the app installs it here when Django is ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from durable.core.errors import ConfigurationError

if TYPE_CHECKING:
    from durable.authoring.handles import Run
    from durable.authoring.refs import Workflow


class Driver(Protocol):
    """Start runs."""

    def start(
        self,
        workflow: Workflow[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        run_id: str | None,
        using: str | None,
    ) -> Run[Any]:
        """Create a run and return its handle; an id that exists gives the existing run."""

    async def astart(
        self,
        workflow: Workflow[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        run_id: str | None,
        using: str | None,
    ) -> Run[Any]:
        """Create a run and return its handle; an id that exists gives the existing run."""


_installed: list[Driver] = []


def install_driver(driver: Driver) -> None:
    """Make this driver the one that starts runs."""
    _installed[:] = [driver]


def get_driver() -> Driver:
    """Return the installed driver.

    Raises:
        ConfigurationError: No driver is installed.
    """
    if not _installed:
        raise ConfigurationError(
            "durable is not ready: add 'durable' to INSTALLED_APPS, and call django.setup() in a script of your own."
        )
    return _installed[0]
