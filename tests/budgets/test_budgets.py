"""Statements and transactions per operation, counted on their way to the server.

A budget is part of what is promised: whoever adds a statement to an operation finds out here.
"""

import itertools
import os
import time
from pathlib import Path

import pytest
from django.db import transaction

from durable import api
from durable.core.states import RunStatus
from durable.engine.instance import get_engine
from tests.budgets.conftest import CLAIM, END, LOOK, TAKE, CountedWorker
from tests.budgets.tap import Tally
from tests.budgets.workflows import (
    asleep,
    dispatched_steps,
    gathered_steps,
    local_steps,
    recorded_values,
    values_and_signal,
)
from tests.rig.patience import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
LEASE_US = 30_000_000

# What is promised: a start or a signal is at most 3 statements, the end of a turn at most 5, each in one transaction.
# What is reached is what is held here, so that one statement more is noticed.
PER_START = 1
PER_SIGNAL = 1
PER_LOCAL_STEP = 1
PER_END_OF_TURN = 1
PER_WAIT_FOR_SIGNAL = 4
PER_SIGNAL_TAKEN = 5
PER_DISPATCHED_STEP = 3


def has_come_to(run, status: RunStatus) -> bool:
    return bool(run.status is status)


def count_turn(worker: CountedWorker, run_of, status: RunStatus = RunStatus.COMPLETED) -> Tally:
    """Return what the worker's bodies send from the start of a run until it stands so."""
    mark = worker.tap.mark()
    run = run_of()
    wait_until(lambda: has_come_to(run, status), what=f"the run to be {status}")
    return worker.of_bodies(mark)


class TestCallers:
    def test_a_start_is_one_commit_of_one_statement(self, tap):
        with tap.in_this_thread():
            local_steps.start(0)
            tally = tap.during(lambda: local_steps.start(0))

        assert tally.transactions == 1, tally
        assert len(tally.statements) <= PER_START, tally
        assert tally.hints <= 1, tally

    def test_a_start_in_a_transaction_adds_no_commit(self, tap):
        def start_ten() -> None:
            with transaction.atomic():
                for _ in range(10):
                    local_steps.start(0)

        with tap.in_this_thread():
            local_steps.start(0)
            tally = tap.during(start_ten)

        assert tally.transactions == 1, tally
        assert len(tally.statements) <= 10 * PER_START, tally
        assert tally.hints <= 1, tally

    def test_a_signal_is_one_commit_of_one_statement(self, tap):
        with tap.in_this_thread():
            api.signal("warm", 1)
            tally = tap.during(lambda: api.signal("token", 1))

        assert tally.transactions == 1, tally
        assert len(tally.statements) <= PER_SIGNAL, tally
        assert tally.hints <= 1, tally


class TestLocalSteps:
    def test_a_local_step_is_one_statement_and_one_commit(self, start_counted_worker):
        worker = start_counted_worker("--concurrency", "1", "--step-concurrency", "1")
        count_turn(worker, lambda: local_steps.start(1))

        none, many = (count_turn(worker, lambda n=n: local_steps.start(n)) for n in (0, 40))

        assert len(many.statements) - len(none.statements) <= 40 * PER_LOCAL_STEP, many
        assert many.transactions - none.transactions <= 40, many
        assert_one_small_transaction([none], PER_END_OF_TURN)


class TestTurns:
    @pytest.fixture
    def worker(self, start_counted_worker) -> CountedWorker:
        """A worker that dispatches steps and executes none."""
        worker: CountedWorker = start_counted_worker("--concurrency", "1", "--queues", "elsewhere")
        count_turn(worker, lambda: local_steps.start(0))
        return worker

    def test_a_turn_that_completes_is_one_transaction_whatever_it_writes(self, worker):
        tallies = [count_turn(worker, lambda n=n: recorded_values.start(n)) for n in (1, 10, 100)]

        assert_one_small_transaction(tallies, PER_END_OF_TURN)

    def test_a_turn_that_dispatches_is_one_transaction_whatever_it_writes(self, worker):
        tallies = [count_turn(worker, lambda n=n: gathered_steps.start(n), RunStatus.SUSPENDED) for n in (1, 10, 100)]

        assert_one_small_transaction(tallies, PER_END_OF_TURN)

    def test_a_turn_that_sleeps_is_one_transaction(self, worker):
        tally = count_turn(worker, lambda: asleep.start(3600.0), RunStatus.SUSPENDED)

        assert_one_small_transaction([tally], PER_END_OF_TURN)

    def test_a_turn_that_waits_for_a_signal_is_one_transaction(self, worker):
        tally = count_turn(worker, lambda: values_and_signal.start(0, "wait"), RunStatus.SUSPENDED)

        assert_one_small_transaction([tally], PER_WAIT_FOR_SIGNAL)

    def test_a_signal_that_is_there_is_taken_in_one_transaction(self, worker):
        api.signal("taken")
        tally = count_turn(worker, lambda: values_and_signal.start(0, "taken"))

        take, end = (Tally(tuple(group)) for _, group in itertools.groupby(tally.sent, lambda sent: sent.transaction))
        assert_one_small_transaction([take], PER_SIGNAL_TAKEN)
        assert_one_small_transaction([end], PER_END_OF_TURN)


def assert_one_small_transaction(tallies: list[Tally], statements: int) -> None:
    for tally in tallies:
        assert tally.transactions == 1, tally
        assert len(tally.statements) <= statements, tally
    assert len({len(tally.statements) for tally in tallies}) == 1, "\n".join(map(str, tallies))


class TestBatches:
    def test_claiming_runs_costs_the_same_for_any_number(self, tap):
        store = get_engine().store
        interest = get_engine().interest(tokens=(), drive=True)
        tallies = []
        with tap.in_this_thread():
            for count in (1, 10, 64):
                with transaction.atomic():
                    for _ in range(count):
                        local_steps.start(0)
                mark = tap.mark()
                claims = store.claim_runs("budgets", interest, lease_us=LEASE_US, limit=64)
                store.read_inputs([claim.lease.run_pk for claim in claims])
                store.read_histories([claim.lease.run_pk for claim in claims])
                tallies.append(tap.since(mark))

                assert len(claims) == count

        assert {len(tally.statements) for tally in tallies} == {3}, tallies
        assert {tally.transactions for tally in tallies} == {3}, tallies

    def test_taking_messages_costs_the_same_for_any_number(self, start_counted_worker, tap):
        worker = start_counted_worker("--concurrency", "1", "--queues", "elsewhere")
        store = get_engine().store
        tallies = []
        with tap.in_this_thread():
            for count in (1, 10, 64):
                count_turn(worker, lambda n=count: gathered_steps.start(n), RunStatus.SUSPENDED)
                tallies.append(tap.during(lambda n=count: self.take(store, n)))

        assert {len(tally.statements) for tally in tallies} == {1}, tallies
        assert {tally.transactions for tally in tallies} == {1}, tallies

    @staticmethod
    def take(store, count: int) -> None:
        taken = store.take_messages("budgets", ("tasks:budgets.doubled",), namespace=None, lease_us=LEASE_US, limit=64)

        assert len(taken) == count

    @pytest.mark.parametrize("count", [1, 10, 64])
    def test_a_worker_claims_what_is_due_in_one_go(self, start_counted_worker, count):
        with transaction.atomic():
            runs = [local_steps.start(0) for _ in range(count)]

        worker = start_counted_worker("--concurrency", "64", "--step-concurrency", "1")

        wait_until(lambda: all(has_come_to(run, RunStatus.COMPLETED) for run in runs), what="all runs to complete")
        claims = worker.of_loop().containing(CLAIM)
        assert len(claims.statements) <= 3, claims

    def test_due_runs_with_a_history_are_read_in_one_go(self, start_counted_worker):
        first = start_counted_worker("--concurrency", "8", "--queues", "elsewhere")
        runs = [values_and_signal.start(3, f"cold-{number}") for number in range(64)]
        wait_until(lambda: all(has_come_to(run, RunStatus.SUSPENDED) for run in runs), what="all runs to wait")
        first.process.sigkill()
        with transaction.atomic():
            for number in range(64):
                api.signal(f"cold-{number}")

        second = start_counted_worker("--concurrency", "64", "--queues", "elsewhere")

        wait_until(lambda: all(has_come_to(run, RunStatus.COMPLETED) for run in runs), what="all runs to complete")
        loop = second.of_loop()
        others = Tally(tuple(each for each in loop.sent if LOOK not in each.text))
        claims = others.containing(CLAIM).statements
        # the wakes come in batches, and each batch may be claimed on its own
        assert len(claims) <= 10, others
        assert len(others.containing("FROM durable_step_checkpoints WHERE run_pk = ANY").statements) <= len(claims), (
            others
        )


class TestParkedBodies:
    STEPS = 201

    @pytest.mark.timeout(120)
    def test_a_dispatched_step_costs_the_same_at_the_end_of_a_long_run(self, start_counted_worker):
        worker = start_counted_worker("--concurrency", "2", "--step-concurrency", "1")
        count_turn(worker, lambda: dispatched_steps.start(2))
        mark = worker.tap.mark()

        run = dispatched_steps.start(self.STEPS)

        wait_until(lambda: has_come_to(run, RunStatus.COMPLETED), timeout=60, what="the run to complete")
        tally = worker.tally(mark)
        ends = [index for index, each in enumerate(tally.sent) if END in each.text]
        early, late = (Tally(tally.sent[ends[first] : ends[first + 10]]) for first in (10, self.STEPS - 11))
        assert len(ends) == self.STEPS + 1
        loop = worker.of_loop().connections
        for ten in (early, late):
            assert len(ten.on(ten.connections - loop).statements) == 10 * PER_DISPATCHED_STEP, ten
            # how often the loop looks is a matter of time, not of steps; but it has nothing else to ask
            assert not [text for text in ten.on(loop).statements if LOOK not in text and TAKE not in text], ten


class TestIdleWorkers:
    STATEMENTS_PER_SECOND = 1.5
    CPU_S_PER_MINUTE = 0.2
    WINDOWS = 3

    @pytest.mark.timeout(150)
    def test_an_idle_worker_rests(self, start_counted_worker):
        worker = start_counted_worker()
        run = dispatched_steps.start(2)
        wait_until(lambda: has_come_to(run, RunStatus.COMPLETED), what="the run to complete")
        asleep.start(3600.0)
        wait_until(lambda: self._is_calm(worker.tally()), timeout=30, what="the worker to have calmed down")

        mark, began = worker.tap.mark(), time.monotonic()
        cpu_s_per_minute = min(self._measure_cpu(worker) for _ in range(self.WINDOWS))
        tally, seconds = worker.tally(mark), time.monotonic() - began

        assert len(tally.statements) / seconds <= self.STATEMENTS_PER_SECOND, tally
        assert tally.hints == 0, tally
        # the least of some windows: whatever else this machine does makes a window dearer, never cheaper
        assert cpu_s_per_minute <= self.CPU_S_PER_MINUTE

    @staticmethod
    def _is_calm(tally: Tally) -> bool:
        looks = tally.containing(LOOK).sent
        return len(looks) > 1 and looks[-1].at - looks[-2].at > 0.9

    @staticmethod
    def _measure_cpu(worker: CountedWorker) -> float:
        mark, began, cpu_s = worker.tap.mark(), time.monotonic(), cpu_of(worker.process.pid)
        wait_until(
            lambda: len(worker.tally(mark).containing(LOOK).sent) >= 5,
            timeout=30,
            interval=0.1,
            what="five looks of an idle worker",
        )
        return 60 * (cpu_of(worker.process.pid) - cpu_s) / (time.monotonic() - began)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, to the nanosecond where the kernel tells."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
