"""Many short cases with processes of their own, forked from a parent that is warm and connected to nothing.

Starting Python and Django takes half a second, a fork a hundredth of it. `run_cases` starts the parent, which runs
each case in a forked child, some at a time; a child forks further processes as it likes. What a case returns comes
back as JSON.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tests.rig.postgres import die_with_parent

Case = dict[str, Any]
Function = Callable[[Case], Case]
CASE_LIMIT_S = 40


def run_cases(
    function: str,
    cases: Sequence[Case],
    *,
    at_once: int,
    env: Mapping[str, str],
    log: Path,
    limit_s: int = CASE_LIMIT_S,
) -> Iterator[Case]:
    """Run a function once for each case and yield the results as they come, each with its case.

    Args:
        function: Dotted path; takes the case, which also says in which `slot` of `at_once` it runs.
        cases: What to give it.
        at_once: How many at a time.
        env: The environment of all of them.
        log: What they print.
        limit_s: A case that takes longer is ended; its result says so.
    """
    request = {"function": function, "cases": list(cases), "at_once": at_once, "limit_s": limit_s}
    with log.open("ab") as errors:
        parent = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.warm"],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        parent.stdin.write(json.dumps(request))
        parent.stdin.close()
        for line in parent.stdout:
            yield json.loads(line)
        assert parent.wait() == 0, f"the parent of the cases failed; see {log}"
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def main() -> None:
    """Be the parent."""
    die_with_parent()
    import django
    from django.utils.module_loading import import_string

    django.setup()
    request = json.load(sys.stdin)
    function: Function = import_string(request["function"])
    waiting = deque(enumerate(request["cases"]))
    free = list(range(request["at_once"]))
    running: dict[int, tuple[Case, int]] = {}
    gc.collect()
    gc.freeze()
    while waiting or running:
        while waiting and free:
            index, case = waiting.popleft()
            case |= {"slot": free.pop(), "index": index}
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                _run_child(function, case, writing, request["limit_s"])
            os.close(writing)
            running[pid] = (case, reading)
        pid, status = os.wait()
        case, reading = running.pop(pid)
        free.append(case["slot"])
        with os.fdopen(reading) as answer:
            text = answer.read()
        result = json.loads(text) if text else {"error": f"the case died: {os.waitstatus_to_exitcode(status)}"}
        sys.stdout.write(json.dumps({"case": case, **result}) + "\n")
        sys.stdout.flush()


def _run_child(function: Function, case: Case, writing: int, limit_s: int) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(limit_s)
        try:
            result = function(case)
        except BaseException:  # noqa: BLE001  # whatever it is belongs into the result
            result = {"error": traceback.format_exc()}
        signal.alarm(0)
        os.write(writing, json.dumps(result).encode()[:60_000])
        code = 0
    finally:
        os._exit(code)


def _too_long(number: int, frame: FrameType | None) -> None:
    message = "the case took too long"
    raise TimeoutError(message)


if __name__ == "__main__":
    main()
