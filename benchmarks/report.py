"""Where and on what was measured, and the figures as a table and as JSON."""

import datetime as dt
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from django.db import connections

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("Django", "psycopg", "greenlet", "msgspec")
SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(SETTINGS)])
        server = dict(cursor.fetchall())
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "durable") else ""),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "postgresql": server,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _git(*args: str) -> str:
    command = ["git", *args]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    return result.stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def print_table(rows: list[tuple[str, str, float | None, str]]) -> None:
    """Print rows of name, unit, figure and remark, in columns."""
    texts = [(name, unit, "" if figure is None else _shown(figure), remark) for name, unit, figure, remark in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(3)]
    for name, unit, figure, remark in texts:
        print(f"{name:<{widths[0]}}  {figure:>{widths[2]}} {unit:<{widths[1]}}  {remark}".rstrip())


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def write_json(machine: dict[str, Any], figures: dict[str, Any], folder: Path) -> Path:
    """Write everything to a file named by the day; a second one of a day replaces the first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{machine['at'][:10]}.json"
    path.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2, ensure_ascii=False) + "\n")
    return path
