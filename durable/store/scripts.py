"""Several writes that stand or fall together.

A script has a *guard* (a conditional write that returns at most one row) and *parts*. On PostgreSQL it is one
statement, in which the guard and the parts are common table expressions; elsewhere the same texts run one after the
other in a transaction.
``{guarded}`` in a part says that it happens only when the guard has matched; ``{settled_steps}`` stands for what the
guard returned under that name. (A part that read the row would still see what it held before.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from durable.store.dialects import RowSource
from durable.store.seam import Row, Session, Statement

CARRIED = "(SELECT settled_steps FROM guard)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One write beside the guard; it returns a row for each row it wrote."""

    text: str
    sources: tuple[RowSource, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Script:
    """A guard and its parts.

    Args:
        guard: The text of the guard, ending in ``RETURNING``.
        columns: How many columns the guard returns; if it returns ``settled_steps``, that is the last one.
        parts: The writes beside it.
    """

    guard: str
    columns: int
    parts: tuple[Part, ...] = ()

    @cached_property
    def combined(self) -> Statement:
        """The whole script as one PostgreSQL statement."""
        names = [f"part_{index}" for index in range(len(self.parts))]
        tables = [f"guard AS ({self.guard})"]
        tables += [f"{name} AS ({part.text})" for name, part in zip(names, self.parts, strict=True)]
        counts = "".join(f", (SELECT count(*) FROM {name})" for name in names)
        text = f"WITH {', '.join(tables)} SELECT guard.*{counts} FROM (SELECT 1) AS one LEFT JOIN guard ON TRUE"
        sources = tuple(source for part in self.parts for source in part.sources)
        text = text.replace("{guarded}", "EXISTS (SELECT 1 FROM guard)")
        return Statement(text.replace("{settled_steps}", CARRIED), writes=True, sources=sources)

    @cached_property
    def single(self) -> tuple[Statement, ...]:
        """The guard and the parts as statements of their own."""
        texts = [(self.guard, ()), *((part.text, part.sources) for part in self.parts)]
        return tuple(
            Statement(
                text.replace("{guarded}", "TRUE").replace("{settled_steps}", ":settled_steps"),
                writes=True,
                sources=sources,
            )
            for text, sources in texts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a script did: the guard's row, if it matched, and how many rows each part wrote."""

    row: Row | None
    counts: tuple[int, ...]


def run_script(session: Session, script: Script, params: Mapping[str, Any], *, needs_guard: bool = True) -> Outcome:
    """Run a script, in the open transaction if there is one.

    Args:
        session: The seam.
        script: What to write.
        params: All parameters.
        needs_guard: Whether the parts are left out when the guard does not match (their texts must say ``{guarded}``).
    """
    if session.dialect.name == "postgresql":
        row = session.execute(script.combined, params)[0]
        matched = row[0] is not None
        return Outcome(row=row[: script.columns] if matched else None, counts=tuple(row[script.columns :]))
    return _run_in_order(session, script, params, needs_guard=needs_guard)


def _run_in_order(session: Session, script: Script, params: Mapping[str, Any], *, needs_guard: bool) -> Outcome:
    guard, *parts = script.single
    with session.transaction() if parts else nullcontext():
        rows = session.execute(guard, params)
        if needs_guard and not rows:
            return Outcome(row=None, counts=tuple(0 for _ in parts))
        carried = {**params, "settled_steps": rows[0][-1] if rows else None}
        counts: Sequence[int] = [len(session.execute(part, carried)) for part in parts]
    return Outcome(row=rows[0] if rows else None, counts=tuple(counts))


@lru_cache(maxsize=64)
def script_of(guard: str, columns: int, parts: tuple[Part, ...]) -> Script:
    """Return the script for these texts; the same object each time, so that it is rendered once."""
    return Script(guard=guard, columns=columns, parts=parts)
