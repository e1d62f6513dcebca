"""All measurements in one run, side by side with bare psycopg loops that write the same rows.

Absolute figures drift from machine to machine; the ratio to the floor of the same run is what counts.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from testproject.database import settings_of, url_of
from tests.rig.postgres import SERVER_OPTIONS, find_server

if TYPE_CHECKING:
    from benchmarks.measures import Figures

# The tests' own server does not wait for the disk; a measured one must.
DURABLE_SERVER = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "128MB"}
RESULTS = Path(__file__).resolve().parent / "results"
GROUPS = ("throughput", "growth", "long", "latency", "sqlite")


def main() -> None:
    """Measure and print."""
    options = parse_arguments()
    SERVER_OPTIONS.update(DURABLE_SERVER)
    server = find_server()
    name = f"durable_bench_{os.getpid()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            with tempfile.TemporaryDirectory(prefix="durable-bench-") as folder:
                url = url_of({**settings_of(server.url), "NAME": name})
                prepare_django(url, Path(folder) / "bench.sqlite3")
                measure_and_report(url, options)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            server.stop()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, once: shows that everything can be measured")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="take the median of N (default: 3)")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group only; may be repeated")
    parser.add_argument("--no-json", action="store_true", help="write no file")
    return parser.parse_args()


def prepare_django(url: str, sqlite: Path) -> None:
    """Set Django up on both databases and make the tables."""
    os.environ.update(
        BENCH_POSTGRES=url,
        BENCH_SQLITE=url_of({**settings_of("sqlite:///"), "NAME": str(sqlite)}),
        DJANGO_SETTINGS_MODULE="benchmarks.settings",
    )
    import django  # noqa: PLC0415  # needs settings
    from django.core.management import call_command  # noqa: PLC0415  # needs settings

    django.setup()
    for alias in ("default", "sqlite"):
        call_command("migrate", database=alias, verbosity=0)


def measure_and_report(url: str, options: argparse.Namespace) -> None:
    """Measure all groups that were asked for, then print and write them."""
    from django.db import connections  # noqa: PLC0415  # needs settings

    from benchmarks import report  # noqa: PLC0415  # needs settings

    machine = report.describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_before']:.1f}; {machine['postgresql']}")
    if "off" in (machine["postgresql"]["fsync"], machine["postgresql"]["synchronous_commit"]):
        print("This server does not wait for the disk: the figures say nothing about durable work.")
    figures = measure(url, options)
    machine["load_after"] = os.getloadavg()[0]
    report.print_table(rows_of(figures))
    if not options.no_json:
        print(f"Written to {report.write_json(machine, figures, RESULTS)}")
    for connection in connections.all(initialized_only=True):
        connection.close()


def measure(url: str, options: argparse.Namespace) -> dict[str, "Figures"]:
    """Return the figures of each group, medians of the repetitions."""
    from benchmarks import measures  # noqa: PLC0415  # needs settings

    sizes = measures.QUICK if options.quick else measures.FULL
    repeat = 1 if options.quick else options.repeat
    conninfo = psycopg.conninfo.make_conninfo(**_address(url))
    plan: dict[str, tuple[str, Callable[[], Figures]]] = {
        "bare psycopg, per second": ("throughput", lambda: measures.measure_floor(conninfo, sizes)),
        "1 worker process, per second": ("throughput", lambda: measures.measure_throughput(sizes, 1)),
        "2 worker processes, per second": ("throughput", lambda: measures.measure_throughput(sizes, 2)),
        "one run alone, ms per step": ("growth", lambda: measures.measure_growth(sizes)),
        f"one run of {sizes.long_run} dispatched steps, ms per step": (
            "long",
            lambda: measures.measure_long_run(sizes),
        ),
        "latency at idle, ms": ("latency", lambda: measures.measure_latency(sizes)),
        "SQLite, 1 worker process, per second": ("sqlite", lambda: measures.measure_sqlite(sizes)),
        "SQLite, latency at idle, ms": ("sqlite", lambda: measures.measure_latency(sizes, "sqlite")),
    }
    chosen = {name: each for name, (group, each) in plan.items() if not options.only or group in options.only}
    repetitions: dict[str, list[Figures]] = {name: [] for name in chosen}
    for number in range(repeat):  # one round after the other, so that drift of the machine meets all groups alike
        for name, each in chosen.items():
            print(f"{number + 1}/{repeat} {name} …", file=sys.stderr, flush=True)
            repetitions[name].append(each())
    return {name: _medians(each) for name, each in repetitions.items()}


def _address(url: str) -> dict[str, Any]:
    settings = settings_of(url)
    keys = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {name: settings[key] for name, key in keys.items() if settings[key]}


def _medians(repetitions: list["Figures"]) -> "Figures":
    return {name: statistics.median(each[name] for each in repetitions) for name in repetitions[0]}


def rows_of(figures: dict[str, "Figures"]) -> list[tuple[str, str, float | None, str]]:
    """Return the table: each figure, and what part of the floor it reaches."""
    floor = figures.get("bare psycopg, per second", {})
    rows: list[tuple[str, str, float | None, str]] = []
    for group, values in figures.items():
        rows.append((group, "", None, ""))
        unit = group.rpartition(", ")[2].replace("per second", "/s")
        for name, figure in values.items():
            ratio = "/ steps" in name
            rows.append((f"  {name}", "" if ratio else unit, figure, _compared(group, name, figure, floor)))
    return rows


def _compared(group: str, name: str, figure: float, floor: "Figures") -> str:
    kind = name.partition(",")[0]
    if "worker process" in group and "SQLite" not in group and f"{kind}, 10 threads" in floor:
        return f"{figure / floor[f'{kind}, 10 threads']:.0%} of bare psycopg with 10 threads"
    if group.startswith("one run alone") and f"{kind}, 1 threads" in floor:
        return f"{1000 / figure / floor[f'{kind}, 1 threads']:.0%} of bare psycopg with 1 thread"
    return ""
