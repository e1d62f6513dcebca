"""A worker under cProfile: `BENCH_PROFILE=folder python -m benchmarks` writes one file of statistics per thread."""

import cProfile
import sys
import threading
from pathlib import Path
from typing import Any

from django.core.management import execute_from_command_line


def main() -> None:
    """Run the management command on the command line, every thread profiled."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    run = threading.Thread.run

    def profiled(thread: threading.Thread) -> Any:
        profile = cProfile.Profile()
        try:
            return profile.runcall(run, thread)
        finally:
            profile.dump_stats(folder / f"{thread.name}.pstats")

    threading.Thread.run = profiled  # type: ignore[assignment, method-assign]  # there is no other way into a thread
    execute_from_command_line(["django", *sys.argv[2:]])


if __name__ == "__main__":
    main()
