"""What the results of a sweep must be."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.acceptance.conftest import Sweep

Say = Callable[[str], None]
Case = dict[str, Any]
Result = dict[str, Any]

RECORDINGS = 8
LEAST_POINTS = 40
TRIES = 3
CLOCKWORK = {"store.look", "store.renew_leases", "store.hold_messages"}


def record_points(sweep: Sweep, say: Say, *, lone_commits: bool = False) -> list[str]:
    """Return the points that every one of some undisturbed runs passes, in order; each runs beside the others.

    Args:
        sweep: Runs cases.
        say: Told how many there are.
        lone_commits: Whether to count statements that commit alone beside the verbs that they are the whole of.
    """
    recordings = sweep("undisturbed", [{"what": "undisturbed"}] * RECORDINGS)
    assert not [problem for each in recordings for problem in problems_of(each)]
    passed = [each["points"] for each in recordings]
    idle = idle_looks(passed[0])
    common = [point for point in passed[0] if all(point in others for others in passed)]
    points = [
        point for point in common if point not in idle and not is_the_same_as_its_verb(point, lone_commits=lone_commits)
    ]
    kinds = Counter(point.partition("#")[0] for point in points)
    say(
        f"{len(common)} points in an undisturbed run of {recordings[0]['seconds']:.2f} s, of which "
        f"{len(common) - len(points)} only repeat another; {len(points)} are visited:"
    )
    say(", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    assert len(points) >= LEAST_POINTS
    return points


def idle_looks(points: list[str]) -> set[str]:
    """Return the points of looks before which nothing has happened in any thread since another look."""
    idle: set[str] = set()
    for previous, point in pairwise(points):
        if point.startswith("store.look#") and previous.startswith("store.look#") and point.endswith(":before"):
            idle |= {point, f"{point.rpartition(':')[0]}:after"}
    return idle


def is_the_same_as_its_verb(point: str, *, lone_commits: bool) -> bool:
    """Tell whether a point beneath a verb differs in nothing from one of the verb: after a commit the verb is over."""
    if ".autocommit#" in point and not lone_commits:
        return True
    return "commit#" in point and point.endswith(":after")


def problems_of(result: Result) -> list[str]:
    """Return what must never be, however slow the machine is."""
    where = f"{result['case'].get('point', 'undisturbed')} (folder {result['case']['what']}-{result['case']['index']})"
    found = [result["error"]] if result.get("error") else result.get("wrong", [])
    return [f"{where}: {problem}" for problem in found]


def is_a_matter_of_time(point: str) -> bool:
    """Tell whether a verb is called by the clock, and its first call is not meant: a fast run needs fewer of them."""
    name, _, number = point.partition("#")
    return ".".join(name.split(".")[:2]) in CLOCKWORK and not number.startswith("1:")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a case may cost on a machine that has nothing else to do.

    Attributes:
        seconds: From the point to the end of the run.
        extra: Attempts that a body may have more than in an undisturbed run; ``None`` sets no limit.
        recoveries: How often the run may be recovered; ``None`` sets no limit.
    """

    seconds: float
    extra: int | None = None
    recoveries: int | None = None

    def holds(self, result: Result) -> bool:
        """Tell whether a result keeps them."""
        attempts = max(result["extra"].values(), default=0)
        return (
            result["seconds"] <= self.seconds
            and (self.extra is None or attempts <= self.extra)
            and (self.recoveries is None or result["recoveries"] <= self.recoveries)
        )


class Verdicts:
    """Judges the results of a sweep; safety at once, the rest after cases in doubt were run again."""

    def __init__(self, sweep: Sweep, function: str, limits: Callable[[Result], Limits], say: Say) -> None:
        self._sweep = sweep
        self._function = function
        self._limits = limits
        self._say = say
        self._settled: list[Result] = []

    def judge(self, cases: list[Case]) -> None:
        """Run the cases and assert what must hold.

        A case that did not come to its point is run again; one that broke a limit is run again alone, and counts then
        unless a renewal came late.
        """
        missed, broken = self._run(cases, alone=False)
        for _ in range(TRIES):
            if missed:
                missed, more = self._run(missed, alone=False)
                broken += more
        for _ in range(TRIES):
            if broken:
                self._say(f"again alone: {', '.join(case['point'] for case in broken)}")
                again, broken = self._run(broken, alone=True)
                missed += again
        self._report()
        timed = [case["point"] for case in missed if is_a_matter_of_time(case["point"])]
        if timed:
            self._say(f"not reached, as the runs were faster than those recorded: {', '.join(timed)}")
        missed = [case for case in missed if case["point"] not in timed]
        assert not missed, f"points that were not reached: {[case['point'] for case in missed]}"
        assert not broken, f"cases beyond their limits: {broken}"

    def _run(self, cases: list[Case], *, alone: bool) -> tuple[list[Case], list[Case]]:
        results = self._sweep(self._function, cases, alone=alone)
        assert len(results) == len(cases)
        problems = [problem for result in results for problem in problems_of(result)]
        assert not problems, f"{len(problems)} problems\n" + "\n".join(problems)
        missed = [result["case"] for result in results if not result["fired"]]
        fired = [result for result in results if result["fired"]]
        good = [result for result in fired if self._limits(result).holds(result) or (alone and result["late"])]
        self._settled += good
        return missed, [{**each["case"], "found": _facts(each)} for each in fired if each not in good]

    def _report(self) -> None:
        if not self._settled:
            return
        slowest = max(each["seconds"] for each in self._settled)
        extra = Counter(sum(each["extra"].values()) for each in self._settled)
        self._say(f"{len(self._settled)} cases, slowest {slowest:.2f} s; cases by extra attempts: {dict(extra)}")
        locked = sum(each.get("locked", False) for each in self._settled)
        if locked:
            self._say(f"in {locked} cases the stopped worker held SQLite's write lock")


def _facts(result: Result) -> str:
    return f"{result['seconds']:.2f} s, extra {result['extra']}, recoveries {result['recoveries']}"
