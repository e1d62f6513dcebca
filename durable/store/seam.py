"""The seam: how verbs reach a database, whichever driver is behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from durable.store.dialects import Dialect, RowSource

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement; ``writes`` tells the counters that it commits when it stands alone.

    Args:
        text: The common text.
        writes: Whether it changes rows.
        sources: The row sources it names.
        postgresql: Another text for PostgreSQL, where the common one will not do.
    """

    text: str
    writes: bool = False
    sources: tuple[RowSource, ...] = ()
    postgresql: str | None = None
    _rendered: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def rendered(self, dialect: Dialect) -> str:
        """Return the text for a dialect; rendered once."""
        try:
            return self._rendered[dialect.name]
        except KeyError:
            text = self.postgresql if self.postgresql and dialect.name == "postgresql" else self.text
            return self._rendered.setdefault(dialect.name, dialect.render(text, self.sources))


@dataclass(slots=True)
class Counters:
    """What went to the database since the start of the process, without hints."""

    statements: int = 0
    commits: int = 0


class Session(Protocol):
    """The calling thread's way to the database of one alias."""

    dialect: Dialect
    counters: Counters

    def execute(self, statement: Statement, params: Mapping[str, Any]) -> Sequence[Row]:
        """Run one statement and return its rows.

        Raises:
            ConnectionTrouble: The answer was lost.
            TransientTrouble: Nothing was done; it may be tried again.
        """

    def transaction(self) -> AbstractContextManager[None]:
        """Open a transaction (immediate on SQLite), or join the open one; roll back when the block raises.

        Raises:
            ConnectionTrouble: The answer to COMMIT was lost.
        """

    def atomic(self) -> AbstractContextManager[None]:
        """Open the transaction in which user code may use the ORM."""

    def prepare_for_work(self) -> None:
        """Ready the calling thread's connection for a worker; nothing where nothing is needed."""

    def is_exclusive(self) -> bool:
        """Tell whether an open transaction keeps every other writer of the database waiting."""

    def writes_only_here(self) -> AbstractContextManager[None]:
        """Refuse user code's writes to other databases inside the block."""

    def open_transaction(self) -> str | None:
        """Return an alias on which user code has a transaction open in this thread."""

    def freshen(self) -> None:
        """Let user code meet no connection of this thread that its server has ended."""

    def tidy(self) -> None:
        """Put right what user code left on this thread's connections."""

    def in_transaction(self) -> bool:
        """Tell whether the caller has a transaction open on this connection."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run an action after the caller's transaction, at once when there is none."""

    def leave_thread(self) -> None:
        """Close every connection of the calling thread, which ends: the store's, and those that user code opened."""

    def close(self) -> None:
        """Close the thread's connection; the next statement opens another."""
