"""What is measured. Every function returns figures by name; the caller repeats them and takes the median."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction

from benchmarks import bare
from benchmarks.fleet import running_workers
from benchmarks.workflows import dispatched_steps, empty, local_steps, signalled
from durable import api
from durable.authoring.refs import Workflow

THREADS = 10
PATIENCE_S = 300.0
LATENCY_PAUSE_S = 0.25
LOOK_S = 0.0003
TABLES = (
    "durable_workflow_runs",
    "durable_step_checkpoints",
    "durable_signal_waiters",
    "durable_buffered_signals",
    "durable_transport_messages",
)
Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is done for one figure."""

    runs: int
    samples: int
    local_counts: tuple[int, ...]
    dispatched_counts: tuple[int, ...]
    long_run: int


FULL = Sizes(
    runs=1_000, samples=40, local_counts=(10, 100, 1_000, 5_000), dispatched_counts=(10, 100, 1_000), long_run=5_000
)
QUICK = Sizes(runs=100, samples=5, local_counts=(10, 100), dispatched_counts=(10, 100), long_run=700)


def clear(alias: str) -> None:
    """Empty the tables.

    They are not analysed while they are empty: PostgreSQL would plan for empty tables, and keep such plans for prepared
    statements until it analyses again.
    """
    with connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            cursor.execute(f"TRUNCATE {', '.join(TABLES)}")
        else:
            for table in TABLES:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608  # a constant


def one(alias: str, sql: str, params: Sequence[Any] = ()) -> Any:
    """Return the first value of a query."""
    with connections[alias].cursor() as cursor:
        cursor.execute(sql, params)
        row = cursor.fetchone()
    return row[0] if row else None


def await_value(alias: str, sql: str, wanted: object, params: Sequence[Any] = (), *, look_s: float = 0.01) -> None:
    """Wait until a query gives a value."""
    deadline = time.monotonic() + PATIENCE_S
    while one(alias, sql, params) != wanted:
        if time.monotonic() > deadline:
            message = f"Still not {wanted!r}: {sql}"
            raise TimeoutError(message)
        time.sleep(look_s)


def await_all(alias: str) -> None:
    """Wait until every run has completed."""
    await_value(alias, "SELECT COUNT(*) FROM durable_workflow_runs WHERE status <> 'completed'", 0, look_s=0.02)


def start(workflow: Workflow[..., Any], argument: Any, alias: str) -> str:
    """Start a run and return its id."""
    return api.start(workflow, argument, using=alias).id


def drain(workflow: Workflow[..., Any], argument: Any, runs: int, alias: str) -> float:
    """Return the seconds from the commit that starts many runs at once to the end of the last one."""
    clear(alias)
    with transaction.atomic(using=alias):
        for _ in range(runs):
            start(workflow, argument, alias)
    began = time.perf_counter()
    await_all(alias)
    return time.perf_counter() - began


def measure_throughput(sizes: Sizes, processes: int) -> Figures:
    """Measure many runs at once: empty, with ten local steps, with three dispatched ones."""
    alias, runs = "default", sizes.runs
    with running_workers(processes, alias):
        clear(alias)
        began = time.perf_counter()
        for _ in range(runs):
            start(empty, None, alias)
        await_all(alias)
        figures = {"empty runs, started one by one": runs / (time.perf_counter() - began)}
        figures["empty runs, started at once"] = runs / drain(empty, None, runs, alias)
        figures["local steps, 10 per run"] = 10 * runs / drain(local_steps, 10, runs, alias)
        figures["dispatched steps, 3 per run"] = 3 * runs / drain(dispatched_steps, 3, runs, alias)
    clear(alias)
    return figures


def measure_floor(url: str, sizes: Sizes) -> Figures:
    """Measure the bare loops that write the same rows."""
    figures: Figures = {}
    for threads in (1, THREADS):
        clear("default")
        figures[f"empty runs, {threads} threads"] = bare.measure(
            url, bare.write_empty_run, threads=threads, rounds=sizes.runs
        )
        figures[f"local steps, {threads} threads"] = 10 * bare.measure(
            url, bare.write_local_steps, threads=threads, rounds=sizes.runs
        )
        clear("default")
        figures[f"dispatched steps, {threads} threads"] = 3 * bare.measure(
            url, bare.write_dispatched_steps, threads=threads, rounds=sizes.runs
        )
    clear("default")
    return figures


def measure_growth(sizes: Sizes, alias: str = "default") -> Figures:
    """Measure one run alone: milliseconds per step, by the number of its steps."""
    figures: Figures = {}
    with running_workers(1, alias):
        for kind, workflow, counts in (
            ("local", local_steps, sizes.local_counts),
            ("dispatched", dispatched_steps, sizes.dispatched_counts),
        ):
            for count in counts:
                clear(alias)
                repeats = max(1, 100 // count)
                times = [_time_alone(workflow, count, alias) for _ in range(repeats)]
                figures[f"{kind} steps, run of {count}"] = 1000 * statistics.median(times) / count
    return figures


def _time_alone(workflow: Workflow[..., Any], count: int, alias: str) -> float:
    run_id = start(workflow, count, alias)
    await_value(alias, "SELECT status FROM durable_workflow_runs WHERE run_id = %s", "completed", [run_id])
    span = "SELECT finished_at_us - started_at_us FROM durable_workflow_runs WHERE run_id = %s"
    return int(one(alias, span, [run_id])) / 1_000_000


def measure_long_run(sizes: Sizes, alias: str = "default") -> Figures:
    """Measure a run that suspends at each of very many dispatched steps: its last 500 against steps 100 to 600."""
    clear(alias)
    with running_workers(1, alias):
        run_id = start(dispatched_steps, sizes.long_run, alias)
        await_value(
            alias, "SELECT status FROM durable_workflow_runs WHERE run_id = %s", "completed", [run_id], look_s=0.1
        )
    at = "SELECT finished_at_us FROM durable_step_checkpoints WHERE seq = %s"
    instants = {seq: one(alias, at, [seq]) for seq in (100, 600, sizes.long_run - 501, sizes.long_run - 1)}
    early = (instants[600] - instants[100]) / 500_000
    late = (instants[sizes.long_run - 1] - instants[sizes.long_run - 501]) / 500_000
    return {"steps 100 to 600": early, "last 500 steps": late, "last 500 / steps 100 to 600": late / early}


def measure_latency(sizes: Sizes, alias: str = "default") -> Figures:
    """Measure what a caller sees at idle: from before `start` or `signal` until the run is seen completed."""
    clear(alias)
    figures: Figures = {}
    loads: tuple[tuple[str, Callable[[int], float]], ...] = (
        ("empty run", lambda number: _time_start(empty, None, alias)),
        ("three dispatched steps", lambda number: _time_start(dispatched_steps, 3, alias)),
        ("signal", lambda number: _time_signal(f"token-{number}", alias)),
    )
    with running_workers(1, alias):
        for name, sample in loads:
            sample(-1)
            times = []
            for number in range(sizes.samples):
                time.sleep(LATENCY_PAUSE_S)
                times.append(1000 * sample(number))
            times.sort()
            figures[f"{name}, p50"] = statistics.median(times)
            figures[f"{name}, p99"] = times[min(len(times) - 1, round(0.99 * len(times)))]
    return figures


def _time_start(workflow: Workflow[..., Any], argument: Any, alias: str) -> float:
    began = time.perf_counter()
    run_id = start(workflow, argument, alias)
    _await_end(run_id, alias)
    return time.perf_counter() - began


def _time_signal(token: str, alias: str) -> float:
    run_id = start(signalled, token, alias)
    status = "SELECT status FROM durable_workflow_runs WHERE run_id = %s"
    await_value(alias, status, "suspended", [run_id])
    time.sleep(LATENCY_PAUSE_S)
    began = time.perf_counter()
    api.signal(token, using=alias)
    _await_end(run_id, alias)
    return time.perf_counter() - began


def _await_end(run_id: str, alias: str) -> None:
    status = "SELECT status FROM durable_workflow_runs WHERE run_id = %s"
    await_value(alias, status, "completed", [run_id], look_s=LOOK_S)


def measure_sqlite(sizes: Sizes) -> Figures:
    """Measure SQLite: many runs at once, and latencies at idle."""
    alias, runs = "sqlite", max(50, sizes.runs // 4)
    with running_workers(1, alias):
        return {
            "empty runs, started at once": runs / drain(empty, None, runs, alias),
            "local steps, 10 per run": 10 * runs / drain(local_steps, 10, runs, alias),
            "dispatched steps, 3 per run": 3 * runs / drain(dispatched_steps, 3, runs, alias),
        }
