"""The differences between databases, as fragments that statements name in braces.

A statement is written once with named parameters (``:owner``) and fragments (``{now}``); each dialect renders it. Where
the databases differ in more than a fragment, the statement carries two texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ColumnType = Literal["bigint", "text"]
Columns = Mapping[str, ColumnType]
PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
POSTGRESQL_CLOCK = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
POSTGRESQL_NOW = "(extract(epoch from statement_timestamp()) * 1000000)::bigint"
SQLITE_NOW = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """A list of rows as a parameter: ``{rows}`` in a statement becomes a table with these columns."""

    name: str
    columns: Columns


class Dialect(Protocol):
    """How one database says it."""

    @property
    def name(self) -> str:
        """Return what statements tell it apart by."""

    def render(self, text: str, sources: Sequence[RowSource]) -> str:
        """Return the statement in the driver's own parameter style."""

    def bind_rows(self, source: RowSource, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the parameters that carry the rows."""

    def bind_list(self, values: Sequence[Any]) -> Any:
        """Return the parameter that carries a list for ``{list:name}``."""


def _substitute(text: str, fragments: Mapping[str, str]) -> str:
    for key, value in fragments.items():
        text = text.replace("{" + key + "}", value)
    return text


@dataclass(frozen=True, slots=True)
class PostgresqlDialect:
    """PostgreSQL 13 and later through psycopg 3."""

    name: str = "postgresql"
    fragments: Mapping[str, str] = field(
        default_factory=lambda: {
            "now": POSTGRESQL_NOW,
            "clock": POSTGRESQL_CLOCK,
            "lock": "FOR NO KEY UPDATE",
            "skip_locked": "FOR NO KEY UPDATE SKIP LOCKED",
            "in_ids": "= ANY(ARRAY(",
            "end_ids": "))",
            "least": "LEAST",
            "true": "TRUE",
        }
    )

    def render(self, text: str, sources: Sequence[RowSource]) -> str:
        """Turn row sources into ``json_to_recordset`` and lists into arrays.

        One JSON text is cheaper for the driver than an array for each column.
        """
        for source in sources:
            columns = ", ".join(f"{name} {kind}" for name, kind in source.columns.items())
            table = f"json_to_recordset(:{source.name}::json) AS {source.name}({columns})"
            text = text.replace("{" + source.name + "}", table)
        text = re.sub(r"\{list:([a-z_]+):(bigint|text)\}", r"= ANY(:\1::\2[])", text)
        return PARAMETER.sub(r"%(\1)s", _substitute(text, self.fragments).replace("%", "%%"))

    def bind_rows(self, source: RowSource, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """All rows as one JSON text of objects."""
        names = tuple(source.columns)
        return {source.name: json.dumps([dict(zip(names, row, strict=True)) for row in rows], separators=(",", ":"))}

    def bind_list(self, values: Sequence[Any]) -> Any:
        """A list is an array as it is."""
        return list(values)


@dataclass(frozen=True, slots=True)
class SqliteDialect:
    """SQLite 3.35 and later; one writer at a time, so locking fragments are empty."""

    name: str = "sqlite"
    clock: str = SQLITE_NOW

    def render(self, text: str, sources: Sequence[RowSource]) -> str:
        """Turn row sources and lists into ``json_each``."""
        for source in sources:
            columns = ", ".join(
                f"json_extract(value, '$[{index}]') AS {name}" for index, name in enumerate(source.columns)
            )
            table = f"(SELECT {columns} FROM json_each(:{source.name})) AS {source.name}"
            text = text.replace("{" + source.name + "}", table)
        text = re.sub(r"\{list:([a-z_]+):(?:bigint|text)\}", r"IN (SELECT value FROM json_each(:\1))", text)
        fragments = {
            "now": self.clock,
            "clock": self.clock,
            "lock": "",
            "skip_locked": "",
            "in_ids": "IN (",
            "end_ids": ")",
            "least": "MIN",
            "true": "TRUE",
        }
        return re.sub(r"::(?:bigint|text|int|boolean)(?:\[\])?", "", _substitute(text, fragments))

    def bind_rows(self, source: RowSource, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """All rows as one JSON text."""
        return {source.name: json.dumps(rows, separators=(",", ":"))}

    def bind_list(self, values: Sequence[Any]) -> Any:
        """The list as one JSON text."""
        return json.dumps(list(values), separators=(",", ":"))
