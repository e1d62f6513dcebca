"""System checks: mistakes in settings and declarations, found before they bite.

No check asks a database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps.config import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, register

from durable.authoring.registry import registry
from durable.conf import Config
from durable.core.errors import nearest

TAG = "durable"

AppConfigs = Sequence[AppConfig] | None


@register(TAG)
def check_settings(app_configs: AppConfigs, **kwargs: Any) -> list[CheckMessage]:
    """Report what is wrong in ``settings.DURABLE`` (``durable.E001``)."""
    raw = getattr(settings, "DURABLE", {})
    found: list[CheckMessage] = [
        Error(problem.msg, hint=problem.hint, id="durable.E001") for problem in Config.problems(raw)
    ]
    alias = _store_alias()
    if alias is not None and alias not in settings.DATABASES:
        close = nearest(alias, settings.DATABASES)
        hint = f"Did you mean {close!r}?" if close else f"Known aliases: {', '.join(sorted(settings.DATABASES))}."
        found.append(Error(f"DURABLE['DATABASE'] names no database: {alias!r}.", hint=hint, id="durable.E001"))
    return found


@register(TAG)
def check_declarations(app_configs: AppConfigs, **kwargs: Any) -> list[CheckMessage]:
    """Report steps and workflows that cannot work (``durable.E002``)."""
    return [
        Error(
            f"The {subject}: {problem}.",
            hint="Use annotations that JSON can be turned into, and import their names at module level, "
            "not under TYPE_CHECKING.",
            id="durable.E002",
        )
        for subject, problem in registry.problems()
    ]


@register(TAG)
def check_autocommit(app_configs: AppConfigs, **kwargs: Any) -> list[CheckMessage]:
    """Report a database without autocommit, on which nothing of the engine would be committed (``durable.E003``)."""
    alias = _store_alias()
    database = settings.DATABASES.get(alias, {}) if alias is not None else {}
    if database.get("AUTOCOMMIT", True):
        return []
    problem = f"The database {alias!r} has AUTOCOMMIT off, but the engine commits statement by statement."
    return [
        Error(problem, hint="Leave AUTOCOMMIT on, and use transaction.atomic() where you need it.", id="durable.E003")
    ]


@register(TAG)
def check_sqlite(app_configs: AppConfigs, **kwargs: Any) -> list[CheckMessage]:
    """Mention SQLite options that let the project's own transactions live better with a worker (``durable.I001``)."""
    alias = _store_alias()
    database = settings.DATABASES.get(alias, {}) if alias is not None else {}
    if database.get("ENGINE") != "django.db.backends.sqlite3":
        return []
    missing = _missing_sqlite_options(database.get("OPTIONS") or {})
    if not missing:
        return []
    return [
        Info(
            f"The SQLite database {alias!r} lacks {' and '.join(missing)}; the project's own transactions may meet "
            f"'database is locked' while a worker writes.",
            hint="Set OPTIONS = {'transaction_mode': 'IMMEDIATE', 'init_command': 'PRAGMA journal_mode=WAL'}. "
            "The engine does so for its own transactions, whatever the project sets.",
            id="durable.I001",
        )
    ]


def _store_alias() -> str | None:
    raw = getattr(settings, "DURABLE", {})
    alias = raw.get("DATABASE", Config().database) if isinstance(raw, dict) else None
    return alias if isinstance(alias, str) else None


def _missing_sqlite_options(options: dict[str, Any]) -> list[str]:
    missing = []
    if str(options.get("transaction_mode", "")).upper() != "IMMEDIATE":
        missing.append("transaction_mode 'IMMEDIATE'")
    if "journal_mode=wal" not in str(options.get("init_command", "")).lower().replace(" ", ""):
        missing.append("journal_mode WAL")
    return missing
