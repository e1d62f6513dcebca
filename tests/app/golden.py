"""The golden workflow: every primitive once, each body noted in a ledger outside the database."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from durable import Context, current_step, step, workflow
from durable.testing.failpoints import append_line
from tests.app.models import Entry

RENEWAL_S = 0.45
"""Within this, a lease of a second is renewed once or twice."""
LEDGER = "DURABLE_TEST_LEDGER"
APPROVE = "approve:{}"
NEVER = "never:{}"
EXPECTED = {
    "added": 4,
    "doubled": 8,
    "retried": 9,
    "gathered": [2, 4],
    "mapped": [20, 40],
    "effect": "effect",
    "approval": {"by": "Zoë"},
    "timed_out": True,
    "last": 30,
}
"""What ``golden`` returns for 3, without what differs from run to run."""
BODIES = {"fails_twice": 3}
"""How often a body starts in an undisturbed run, where that is not once."""


def note(what: str, run: str, seq: int | None, attempt: int, **facts: Any) -> None:
    """Append a line to the ledger; the monotonic clock is that of the machine, the same for all processes."""
    path = os.environ.get(LEDGER)
    if path:
        line = {"what": what, "run": run, "seq": seq, "attempt": attempt, "pid": os.getpid(), **facts}
        append_line(Path(path), json.dumps({**line, "ns": time.monotonic_ns()}))


class noted:  # noqa: N801  # reads as what it does
    """Note the start and the end of the body of a step."""

    def __init__(self, name: str) -> None:
        context = current_step()
        run, _, seq = context.step_id.rpartition(":")
        self._facts = (run, int(seq), context.attempt)
        self._name = name

    def __enter__(self) -> None:
        note("start", *self._facts, name=self._name)

    def __exit__(self, *error: object) -> None:
        note("end", *self._facts, name=self._name)


def add(left: int, right: int) -> int:
    """Add."""
    with noted("add"):
        return left + right


@step
def golden_double(number: int) -> int:
    """Double, without a time limit."""
    with noted("double"):
        return 2 * number


@step(timeout="20s")
def golden_timed_double(number: int) -> int:
    """Double, with a time limit, so that the run keeps its lease meanwhile, and slowly, so that it is renewed."""
    with noted("timed"):
        time.sleep(RENEWAL_S)
        return 2 * number


@step(retries=2, backoff="fixed", backoff_base="10ms", jitter=False)
def golden_fails_twice(number: int) -> int:
    """Fail at the first two attempts."""
    with noted("fails_twice"):
        if current_step().attempt < 3:
            raise ValueError(f"attempt {current_step().attempt}")
        return number + 1


def write_entry(key: str) -> int:
    """Write a row beside the checkpoint."""
    with noted("write_entry"):
        Entry.objects.create(key=key, text="written")
        return Entry.objects.filter(key=key).count()


@workflow
def golden(ctx: Context, number: int) -> dict[str, Any]:
    """Use every primitive."""

    def effect() -> str:
        note("start", ctx.run_id, None, 1, name="effect")
        return "effect"

    began, mark, draw = ctx.now(), ctx.uuid(), ctx.random()
    added = ctx.local_step("add", add, number, 1)
    doubled = ctx.step(golden_double, added)
    retried = ctx.step(golden_fails_twice, doubled)
    gathered = ctx.gather(golden_double.call(1), golden_timed_double.call(2))
    mapped = list(ctx.map(golden_double, [10, 20], window=2))
    ctx.sleep("50ms")
    made = ctx.side_effect(effect)
    rows = ctx.transaction("write_entry", write_entry, ctx.run_id)
    _, approval = ctx.wait_for_signal(APPROVE.format(ctx.run_id), timeout="1h")
    try:
        ctx.wait_for_signal(NEVER.format(ctx.run_id), timeout="50ms")
    except TimeoutError:
        timed_out = True
    else:
        timed_out = False
    last = ctx.local_step("last", add, retried + doubled, 12 + rows)
    return {
        "added": added,
        "doubled": doubled,
        "retried": retried,
        "gathered": list(gathered),
        "mapped": mapped,
        "effect": made,
        "approval": approval,
        "timed_out": timed_out,
        "last": last,
        "drawn": [began.isoformat(), str(mark), draw],
    }
