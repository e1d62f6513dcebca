"""The story that the demo tells, act by act."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from django.contrib.auth import get_user_model
from django.core.management import call_command

from testproject.demo.facts import (
    Progress,
    count_charged_in_flight,
    read_charge_facts,
    read_outcomes,
    read_progress,
    read_statuses,
)
from testproject.demo.processes import MANAGE, WorkerProcess, run_command
from testproject.demo.screen import Screen
from testproject.shop.intake import decide, place_order, stock_products
from testproject.shop.models import Order
from testproject.shop.orders import APPROVAL_LIMIT, read_orders, read_products

LEAST_IN_FLIGHT = 5
LIMIT_S = 80.0
LOOK_S = 0.1
EAGER_LOOK_S = 0.01
MANAGER = "Ada"


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


class Story:
    """Fulfil the orders of a file, with a worker killed half-way.

    Args:
        orders_file: The order file.
        database: The new database.
    """

    def __init__(self, orders_file: Path, database: Path) -> None:
        self._orders_file = orders_file
        self._database = database
        self._screen = Screen(sys.stdout)
        self._began = time.monotonic()
        self._total = 0
        self._workers: list[WorkerProcess] = []

    def tell(self) -> int:
        """Tell the story; return the exit code."""
        try:
            self._prepare()
            self._run_until_killed()
            self._run_to_end()
            return self._report()
        except DemoError as error:
            self._screen.bad(str(error))
            for line in self._workers[-1].tail() if self._workers else []:
                self._screen.say(f"    {line}")
            return 1
        except KeyboardInterrupt:
            self._screen.say("Interrupted.")
            return 130
        finally:
            for worker in self._workers:
                if worker.is_alive():
                    worker.kill()

    def _prepare(self) -> None:
        screen = self._screen
        screen.title("A shop fulfils its orders; its worker is killed half-way.")
        call_command("migrate", verbosity=0)
        get_user_model().objects.create_superuser("demo", "", "demo")
        stock_products(read_products())
        screen.fact("database", f"{shown(self._database)} (new)")
        screen.fact("lease", "5 s instead of 30 s, so that a dead worker's work is soon taken over")

    def _run_until_killed(self) -> None:
        screen, worker = self._screen, self._start_worker()
        screen.title(f"Worker 1, process {worker.pid}")
        self._place_orders()
        self._watch(worker, lambda progress: 2 * progress.ended >= self._total)
        in_flight = self._freeze_in_flight(worker)
        charged = count_charged_in_flight(worker.pid)
        worker.kill()
        self._keep_progress(read_progress(worker.pid))
        screen.loud(
            f"kill -9 {worker.pid}: {in_flight} charges were in flight, {charged} of them already in the ledger"
        )

    def _run_to_end(self) -> None:
        screen, worker = self._screen, self._start_worker()
        screen.title(f"Worker 2, process {worker.pid}")
        approved, rejected = self._decide_all()
        screen.fact(
            "approval", f"{approved + rejected} orders over {APPROVAL_LIMIT}: {approved} approved, {rejected} rejected"
        )
        progress = self._watch(worker, lambda progress: progress.ended >= self._total)
        self._keep_progress(progress)
        code = worker.stop()
        if code != 0:
            raise DemoError(f"Worker 2 ended with code {code} when it was asked to stop.")

    def _start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(len(self._workers) + 1, self._database.parent)
        self._workers.append(worker)
        return worker

    def _place_orders(self) -> None:
        screen = self._screen
        for line in read_orders(self._orders_file):
            if line.purchase is None:
                screen.fact(f"line {line.number}", f"skipped, it is malformed: {line.problem}")
            elif place_order(line.purchase):
                self._total += 1
            else:
                screen.fact(f"line {line.number}", f"run {line.purchase.run_id} exists: starting it again is a no-op")
        screen.fact("orders", f"{self._total} runs started from {self._orders_file.name}")

    def _freeze_in_flight(self, worker: WorkerProcess) -> int:
        """Freeze the worker at an instant at which enough charges are in flight; return how many are."""
        while True:
            self._watch(worker, lambda progress: progress.charging >= LEAST_IN_FLIGHT, every_s=EAGER_LOOK_S)
            worker.freeze()
            in_flight = read_progress(worker.pid).charging
            if in_flight >= LEAST_IN_FLIGHT:
                return in_flight
            worker.thaw()

    def _decide_all(self) -> tuple[int, int]:
        """Decide about every order that waits or will wait: a signal that comes early is kept."""
        decisions = {order_id: order_id % 4 != 0 for order_id in self._orders_to_decide()}
        for order_id, approve in decisions.items():
            decide(order_id, approve=approve, by=MANAGER, reason="" if approve else "no budget this month")
        approved = sum(decisions.values())
        return approved, len(decisions) - approved

    def _orders_to_decide(self) -> list[int]:
        expensive = Order.objects.filter(total__gt=APPROVAL_LIMIT).exclude(status=Order.Status.SOLD_OUT)
        return list(expensive.values_list("id", flat=True))

    def _watch(
        self, worker: WorkerProcess, is_reached: Callable[[Progress], bool], *, every_s: float = LOOK_S
    ) -> Progress:
        """Show the progress until something is reached."""
        while True:
            progress = read_progress(worker.pid)
            if is_reached(progress):
                return progress
            if not worker.is_alive():
                raise DemoError("The worker ended by itself. The end of what it printed:")
            if time.monotonic() - self._began > LIMIT_S:
                raise DemoError(f"This takes longer than {LIMIT_S:g} s. The end of what the worker printed:")
            self._screen.progress(progress.ended, self._total, self._describe(progress))
            time.sleep(every_s)

    def _keep_progress(self, progress: Progress) -> None:
        self._screen.finish_progress(progress.ended, self._total, self._describe(progress))

    def _describe(self, progress: Progress) -> str:
        return (
            f"ended, {progress.charging:>2} charging, {progress.waiting:>2} waiting, "
            f"{time.monotonic() - self._began:.0f} s"
        )

    def _report(self) -> int:
        self._show_outcomes()
        self._show_charges()
        code = self._check()
        self._screen.say(f"  {time.monotonic() - self._began:.1f} seconds from the empty database to here.")
        self._say_how_to_look()
        return code

    def _show_outcomes(self) -> None:
        screen, rows = self._screen, read_outcomes()
        screen.title(row_of("Orders", "number", "total", indent=0))
        for row in rows:
            screen.say(row_of(row.outcome, row.orders, row.total))
        screen.say(row_of("all", sum(row.orders for row in rows), sum((row.total for row in rows), Decimal(0))))
        statuses = read_statuses()
        by_status = ", ".join(f"{count} {status}" for status, count in sorted(statuses.by_status.items()))
        screen.say(row_of("runs that have ended", statuses.ended, by_status))

    def _show_charges(self) -> None:
        screen, facts = self._screen, read_charge_facts()
        screen.title(row_of("Charges", "number", "total", indent=0))
        screen.say(row_of("in the ledger", facts.charges, facts.amount))
        screen.say(row_of("orders charged twice", facts.charged_twice))
        screen.title(row_of("Executions of the charge step", "number", indent=0))
        ended = f"{facts.charges} charged, {facts.refused} refused"
        if facts.unsaved:
            ended += f", {facts.unsaved} killed before that was stored"
        screen.say(row_of("came to their end", facts.ended, ended))
        screen.say(row_of("failed by the provider", facts.retried, "the step's retries tried again"))
        screen.say(row_of("killed on their way", facts.killed, "with worker 1"))
        screen.say(row_of("all", facts.bodies))
        screen.say(row_of("ran a second time", facts.ran_twice, "worker 2 took over what was killed"))
        screen.say(row_of("found their charge made", facts.found, "the ledger knew the step id: not charged again"))

    def _check(self) -> int:
        """Have a process of its own compare file, store and ledger; return its exit code."""
        screen = self._screen
        screen.title("Check: order file, store and ledger compared by another process")
        ended = run_command("shop_check", "--orders", str(self._orders_file.resolve()), "--no-color")
        show = screen.good if ended.returncode == 0 else screen.bad
        for line in (ended.stdout + ended.stderr).splitlines():
            show(line)
        return ended.returncode

    def _say_how_to_look(self) -> None:
        screen = self._screen
        screen.title("Look at the runs, step by step, in the admin:")
        database = f"DATABASE_URL=sqlite:///{shown(self._database)}"
        screen.say(f"  {database} \\\n  {shown(Path(sys.executable))} {shown(MANAGE)} runserver")
        screen.say("  http://127.0.0.1:8000/admin/   user demo, password demo")


def row_of(name: str, number: int | str, more: Decimal | str = "", *, indent: int = 2) -> str:
    """Return a row of a table; amounts are aligned, words follow."""
    is_column = isinstance(more, Decimal) or indent == 0
    tail = f"{more:>14,.2f}" if isinstance(more, Decimal) else f"{more:>14}" if is_column else f"   {more}"
    return f"{' ' * indent}{name:<{30 - indent}}{number:>8}{tail}".rstrip()


def shown(path: Path) -> str:
    """Return a path as people would type it here: relative, unless that leads up and away."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
