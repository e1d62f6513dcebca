"""Worker processes that are measured: `durable_work` as a newcomer starts it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY_LIMIT_S = 30


@contextmanager
def running_workers(count: int, alias: str) -> Iterator[None]:
    """Have worker processes run inside the block; they are ready when it begins."""
    workers = [_start(alias) for _ in range(count)]
    try:
        for worker in workers:
            _await_greeting(worker)
        time.sleep(0.5)  # the first looks and the listening connection
        yield
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)


def _start(alias: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "django", "durable_work", "--database", alias]
    profile = os.environ.get("BENCH_PROFILE")
    if profile:
        command = [sys.executable, "-m", "benchmarks.profiled", profile, *command[3:]]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603  # a command of our own


def _await_greeting(worker: subprocess.Popen[str]) -> None:
    assert worker.stdout is not None
    deadline = time.monotonic() + READY_LIMIT_S
    while "Ready" not in worker.stdout.readline():
        if worker.poll() is not None or time.monotonic() > deadline:
            message = f"A worker did not start (exit code {worker.poll()})."
            raise RuntimeError(message)
