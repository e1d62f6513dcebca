"""One case of the sweeps: a golden run, a worker to which something happens at a point, and what it left behind.

It runs in a process of its own, forked from a warm parent (`tests.rig.warm`), on a database of its own.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connections

from durable.core.states import TERMINAL, CheckpointStatus
from durable.engine.instance import get_engine
from durable.engine.steer import send_signal
from durable.engine.worker import Worker, WorkerOptions
from durable.management.process import WorkerProcess
from durable.store.records import CheckpointWrite, Lease, RunRecord, Settlement, TurnEnd
from durable.testing.failpoints import Call, Failpoints, append_line
from tests.app.golden import APPROVE, BODIES, EXPECTED, LEDGER, golden
from tests.app.models import Entry
from tests.rig.postgres import die_with_parent

RUN = "golden"
LOOK_S = 0.03
WORK_LIMIT_S = 20.0
DRAIN_LIMIT_S = 10.0
SLACK_S = 0.2
REACH_LIMIT_S = 2.0
"""How long an idle worker may take to come to a point that it had not reached when the run ended."""
LEASE_S = 1.0
SETTLED = (CheckpointStatus.COMPLETED, CheckpointStatus.FAILED)
FENCED = ("record", "hold_turn", "begin_turn", "end_turns", "take_signal", "record_with")
"""Verbs of a run's holder, each with the lease as its first argument or in it."""
TABLES = (
    "durable_workflow_runs",
    "durable_step_checkpoints",
    "durable_signal_waiters",
    "durable_buffered_signals",
    "durable_transport_messages",
    "tests_app_entry",
)


class Trace:
    """Notes in a file what a worker's store calls did: what they settled, and which writes the fence refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._late = 0
        self.late: Callable[[], int] = lambda: 0

    def __call__(self, call: Call) -> None:
        port, _, verb = call.name.partition(".")
        if port != "store":
            return
        if call.moment == "before":
            if verb in FENCED:
                self._write(what="asks", verb=verb, number=call.number, epoch=_lease(call.args[0]).epoch)
            return
        seqs = _settled_by(verb, call.args, call.result)
        if seqs:
            self._write(what="settled", seqs=seqs)
        if verb in FENCED:
            self._write(what="told", verb=verb, number=call.number, done=_is_done(verb, call.result))
        if self.late() > self._late:
            self._late = self.late()
            self._write(what="late", times=self._late)

    def _write(self, **facts: Any) -> None:
        append_line(self._path, json.dumps({**facts, "ns": time.monotonic_ns()}))


def _lease(given: Any) -> Lease:
    return given if isinstance(given, Lease) else given[0].lease


def _is_done(verb: str, result: Any) -> bool:
    if verb == "end_turns":
        return any(result)
    if verb == "take_signal":
        return not result.lost
    if verb == "hold_turn":
        return result is not None
    return bool(result)


def _settled_by(verb: str, args: tuple[Any, ...], result: Any) -> list[int]:
    """Return positions that are committed as settled once this call has returned; never one too many."""
    if verb == "record" and result == len(args[1]):
        return [write.seq for write in args[1] if write.status in SETTLED]
    if verb == "end_turns":
        ends: list[TurnEnd] = [end for end, done in zip(args[0], result, strict=True) if done]
        writes: list[CheckpointWrite] = [write for end in ends for write in end.checkpoints]
        return [write.seq for write in writes if write.status in SETTLED]
    if verb == "settle_steps":
        pairs: list[tuple[Settlement, Any]] = list(zip(args[1], result, strict=True))
        return [settlement.seq for settlement, done in pairs if done.written and settlement.status in SETTLED]
    return []


class GoldenCase:
    """A golden run on a database of its own."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.folder = Path(case["folder"]) / f"{case['what']}-{case['index']}-{os.getpid()}"
        self.folder.mkdir(parents=True)
        self.ledger = self.folder / "ledger"
        os.environ[LEDGER] = str(self.ledger)
        self._take_database()
        self.workers: list[int] = []
        self.signalled = False
        self.settled_ns: dict[int, int] = {}
        golden.start_as(RUN, 3)

    def _take_database(self) -> None:
        """Take a copy of the template, or empty the slot's database."""
        settings = connections.settings["default"]
        if settings["ENGINE"].endswith("sqlite3"):
            settings["NAME"] = str(self.folder / "store.sqlite3")
            shutil.copyfile(self.case["database"], settings["NAME"])
            return
        settings["NAME"] = f"{self.case['database']}_{self.case['slot']}"
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            cursor.execute("".join(f"DELETE FROM {table};" for table in TABLES))

    @property
    def is_sqlite(self) -> bool:
        return connections["default"].vendor == "sqlite"

    def fork_worker(self, plan: dict[str, str]) -> int:
        """Start a worker that has nothing of this process but its memory."""
        connections.close_all()
        number = len(self.workers) + 1
        pid = os.fork()
        if pid == 0:
            self._work(number, plan)
        self.workers.append(pid)
        return pid

    def _work(self, number: int, plan: dict[str, str]) -> None:
        code = 1
        try:
            signal.alarm(0)
            die_with_parent()
            with (self.folder / f"worker-{number}.log").open("wb", buffering=0) as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            trace = Trace(self.trace_of(number))
            Failpoints(plan, self.points_of(number), [trace]).install()
            worker = Worker(get_engine(), WorkerOptions(concurrency=1, step_concurrency=2))
            trace.late = lambda: worker.holdings.late_renewals
            WorkerProcess(worker, lambda line: None).run("")
            code = 0
        except BaseException:  # noqa: BLE001  # printed for people
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def trace_of(self, number: int) -> Path:
        return self.folder / f"trace-{number}"

    def points_of(self, number: int) -> Path:
        return self.folder / f"points-{number}"

    def read_run(self) -> RunRecord:
        run = get_engine().store.read_run(RUN)
        assert run is not None
        return run

    def drive(self, until: Callable[[RunRecord], bool], limit_s: float = WORK_LIMIT_S) -> RunRecord:
        """Be the world around the run: approve when it asks, until a condition holds or the time is over."""
        deadline = time.monotonic() + limit_s
        while True:
            run = self.read_run()
            if not self.signalled and run.waiting_on.startswith("signal approve") and not self.is_write_locked():
                send_signal(get_engine(), APPROVE.format(RUN), {"by": "Zoë"})
                self.signalled = True
            if until(run) or time.monotonic() > deadline:
                return run
            time.sleep(LOOK_S)

    def drive_to_point(self, is_reached: Callable[[], bool]) -> bool:
        """Drive until the first worker has met its fate at the point; return whether it has."""
        ended_at: list[float] = []

        def is_over(run: RunRecord) -> bool:
            if is_terminal(run) and not ended_at:
                ended_at.append(time.monotonic())
            return is_reached() or bool(ended_at and time.monotonic() - ended_at[0] > REACH_LIMIT_S)

        self.drive(is_over)
        return is_reached()

    def has_fired(self, point: str) -> bool:
        """Tell whether the first worker has come to the point."""
        path = self.points_of(1)
        return path.exists() and f"!{point}\n" in path.read_text()

    def wait_for_lease_end(self, stopped_at: float) -> None:
        """Drive until no lease stands that a worker had which is stopped since an instant."""
        self.drive(lambda run: time.monotonic() > stopped_at + LEASE_S + SLACK_S and not self._is_leased())

    def _is_leased(self) -> bool:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT lease_expires_at_us FROM durable_workflow_runs WHERE lease_owner IS NOT NULL")
            found = cursor.fetchone()
        return found is not None and found[0] > get_engine().store.read_now()

    def is_cleared(self, run: RunRecord) -> bool:
        """Tell whether the run has ended and no message is left of it."""
        if not is_terminal(run):
            return False
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM durable_transport_messages")
            return bool(cursor.fetchone()[0] == 0)

    def zombie(self, point: str, epoch: int, continued_ns: int, *, locked: bool) -> list[str]:
        """Return what the first worker did under its old lease after it had been stopped past its end."""
        wrong: list[str] = []
        asked: list[str] = []
        under_old_lease: set[tuple[str, int]] = set()
        for line in self.lines(self.trace_of(1)):
            if line["what"] not in {"asks", "told"}:
                continue
            call = (line["verb"], line["number"])
            at_point = point == f"store.{line['verb']}#{line['number']}:before"
            if line["what"] == "asks" and line["epoch"] <= epoch and (line["ns"] > continued_ns or at_point):
                under_old_lease.add(call)
                if not at_point:
                    asked.append(line["verb"])
            elif line["what"] == "told" and call in under_old_lease and line["done"]:
                wrong.append(f"{line['verb']}#{line['number']} of the zombie was done")
        if len(asked) > 1:
            wrong.append(f"the zombie did not stop at its next operation but asked for {asked}")
        return wrong

    def is_write_locked(self) -> bool:
        """Tell whether a process that is stopped holds SQLite's write lock; elsewhere nothing stops everybody."""
        if not self.is_sqlite:
            return False
        with sqlite3.connect(connections["default"].settings_dict["NAME"], timeout=0.2) as raw:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            raw.execute("ROLLBACK")
        raw.close()
        return False

    def note_settled(self) -> None:
        """Note what is committed as settled by now, whoever did it."""
        records = get_engine().store.read_histories([self.read_run().run_pk])
        now = time.monotonic_ns()
        for record in next(iter(records.values()), []):
            if record.settled:
                self.settled_ns.setdefault(record.seq, now)

    def dump(self) -> dict[str, list[Any]]:
        """Return every row of every table of the engine."""
        rows: dict[str, list[Any]] = {}
        with connections["default"].cursor() as cursor:
            for table in TABLES:
                cursor.execute(
                    f"SELECT * FROM {table} ORDER BY id"
                    if "checkpoints" not in table
                    else f"SELECT * FROM {table} ORDER BY run_pk, seq"
                )
                rows[table] = [[str(value) for value in row] for row in cursor.fetchall()]
        return rows

    def end(self, pid: int) -> None:
        """Kill a worker and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def lines(self, path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def verdict(self) -> dict[str, Any]:
        """Return what is wrong with how everything ended, and what it took."""
        run = self.read_run()
        store = get_engine().store
        history = store.read_histories([run.run_pk]).get(run.run_pk, [])
        wrong = self._wrong_result(run, {record.seq: record.output for record in history})
        traces = [line for number in range(1, len(self.workers) + 1) for line in self.lines(self.trace_of(number))]
        for line in traces:
            if line["what"] == "settled":
                for seq in line["seqs"]:
                    self.settled_ns[seq] = min(self.settled_ns.get(seq, line["ns"]), line["ns"])
        effect = next((record.seq for record in history if record.name == "side_effect"), -1)
        starts = [line for line in self.lines(self.ledger) if line["what"] == "start"]
        names: Counter[tuple[int, str]] = Counter()
        for line in starts:
            seq = effect if line["seq"] is None else line["seq"]
            names[seq, line["name"]] += 1
            if line["ns"] > self.settled_ns.get(seq, line["ns"]):
                wrong.append(f"the body of {line['name']} at {seq} started after its checkpoint was committed")
        extra = {f"{name} at {seq}": times - BODIES.get(name, 1) for (seq, name), times in names.items()}
        return {
            "wrong": wrong,
            "extra": {name: times for name, times in extra.items() if times},
            "late": sum(line["what"] == "late" for line in traces),
            "recoveries": run.generation,
        }

    def _wrong_result(self, run: RunRecord, outputs: dict[int, str | None]) -> list[str]:
        wrong: list[str] = []
        if run.status not in TERMINAL or run.output is None:
            return [f"the run is {run.status}, waiting on {run.waiting_on!r}: {run.error}"]
        output = json.loads(run.output)
        drawn = output.pop("drawn")
        if output != EXPECTED:
            wrong.append(f"the result is {output}")
        recorded = [json.loads(outputs.get(seq) or "null") for seq in range(3)]
        if [drawn[1], drawn[2]] != recorded[1:]:
            wrong.append(f"the body drew {drawn}, recorded is {recorded}")
        entries = Entry.objects.count()
        if entries != 1:
            wrong.append(f"the transaction wrote {entries} rows")
        orphans = get_engine().store.find_orphans()
        if orphans:
            wrong.append(f"orphans: {orphans}")
        return wrong


def undisturbed(case: dict[str, Any]) -> dict[str, Any]:
    """Run without any harm; return the points that were passed."""
    golden_case = GoldenCase(case)
    worker = golden_case.fork_worker({})
    began = time.monotonic()
    golden_case.drive(is_terminal)
    seconds = time.monotonic() - began
    golden_case.end(worker)
    passed = [line.split()[1] for line in golden_case.points_of(1).read_text().splitlines()]
    return {**golden_case.verdict(), "seconds": seconds, "points": passed}


def killed(case: dict[str, Any]) -> dict[str, Any]:
    """Kill the worker at a point, perhaps a second one at another; a clean one does the rest."""
    golden_case = GoldenCase(case)
    first = Child(golden_case.fork_worker({case["point"]: "kill"}))
    if not golden_case.drive_to_point(first.has_ended):
        golden_case.end(first.pid)
        return {"fired": False}
    golden_case.note_settled()
    if "then" in case:
        second = Child(golden_case.fork_worker({case["then"]: "kill"}))
        if not golden_case.drive_to_point(second.has_ended):
            golden_case.end(second.pid)
            return {"fired": False}
        golden_case.note_settled()
    last = golden_case.fork_worker({})
    began = time.monotonic()
    golden_case.drive(is_terminal)
    seconds = time.monotonic() - began
    golden_case.end(last)
    return {**golden_case.verdict(), "fired": True, "seconds": seconds}


def troubled(case: dict[str, Any]) -> dict[str, Any]:
    """Let a call fail once, before it is made or when its answer is on its way; the worker goes on by itself."""
    golden_case = GoldenCase(case)
    only = golden_case.fork_worker({case["point"]: case["action"]})
    golden_case.drive_to_point(lambda: golden_case.has_fired(case["point"]))
    fired = golden_case.has_fired(case["point"])
    began = time.monotonic()
    golden_case.drive(is_terminal)
    seconds = time.monotonic() - began
    golden_case.end(only)
    return {**golden_case.verdict(), "fired": fired, "seconds": seconds}


def taken_over(case: dict[str, Any]) -> dict[str, Any]:
    """Stop the worker at a point until a second one has finished its run, then let it go on."""
    golden_case = GoldenCase(case)
    first = Child(golden_case.fork_worker({case["point"]: "stop"}))
    if not golden_case.drive_to_point(first.has_stopped):
        golden_case.end(first.pid)
        return {"fired": False}
    golden_case.note_settled()
    epoch = golden_case.read_run().lease_epoch
    stopped_at = time.monotonic()
    locked = golden_case.is_write_locked()
    second = golden_case.fork_worker({})
    continued_ns = 0
    if locked:  # nobody can have taken the run over while the whole database is locked
        golden_case.wait_for_lease_end(stopped_at)
        continued_ns = first.go_on()
    golden_case.drive(golden_case.is_cleared)
    seconds = time.monotonic() - stopped_at
    golden_case.note_settled()
    golden_case.end(second)
    before = golden_case.dump()
    if not locked:
        continued_ns = first.go_on()
    drained = first.drain()
    wrong = golden_case.zombie(case["point"], epoch, continued_ns, locked=locked)
    if not drained:
        wrong.append("the zombie did not end when it was asked to")
    after = golden_case.dump()
    wrong += [
        f"{table} was {before[table]}, became {after[table]}" for table in TABLES if before[table] != after[table]
    ]
    verdict = golden_case.verdict()
    return {**verdict, "wrong": wrong + verdict["wrong"], "fired": True, "seconds": seconds, "locked": locked}


def stopped_alone(case: dict[str, Any]) -> dict[str, Any]:
    """Stop the only worker at a point until its lease has run out, then let it go on."""
    golden_case = GoldenCase(case)
    first = Child(golden_case.fork_worker({case["point"]: "stop"}))
    if not golden_case.drive_to_point(first.has_stopped):
        golden_case.end(first.pid)
        return {"fired": False}
    golden_case.note_settled()
    epoch = golden_case.read_run().lease_epoch
    locked = golden_case.is_write_locked()
    golden_case.wait_for_lease_end(time.monotonic())
    continued_ns = first.go_on()
    began = time.monotonic()
    golden_case.drive(is_terminal)
    seconds = time.monotonic() - began
    golden_case.end(first.pid)
    wrong = golden_case.zombie(case["point"], epoch, continued_ns, locked=locked)
    verdict = golden_case.verdict()
    return {**verdict, "wrong": wrong + verdict["wrong"], "fired": True, "seconds": seconds, "locked": locked}


def is_terminal(run: RunRecord) -> bool:
    """Tell whether a run has ended."""
    return run.status in TERMINAL


class Child:
    """A worker of the case, as its parent sees it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def _look(self) -> int | None:
        if self._status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            self._status = status if found else None
        return self._status

    def has_stopped(self) -> bool:
        status = self._look()
        return status is not None and os.WIFSTOPPED(status)

    def has_ended(self) -> bool:
        status = self._look()
        return status is not None and not os.WIFSTOPPED(status)

    def go_on(self) -> int:
        """Let it go on; return the monotonic time in nanoseconds."""
        self._status = None
        now = time.monotonic_ns()
        os.kill(self.pid, signal.SIGCONT)
        return now

    def drain(self) -> bool:
        """Ask it to end; return whether it did in time."""
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + DRAIN_LIMIT_S
        while not self.has_ended() and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return self.has_ended()
