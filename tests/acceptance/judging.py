"""What the results of a sweep must be."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.acceptance.conftest import Sweep

Say = Callable[[str], None]
Result = dict[str, Any]

RECORDINGS = 3
LEAST_POINTS = 40
TRIES_ALONE = 3


def record_points(sweep: Sweep, say: Say) -> list[str]:
    """Return the points that every one of some undisturbed runs passes, in order."""
    recordings = sweep("undisturbed", [{"what": "undisturbed"}] * RECORDINGS, alone=True)
    assert not [problem for each in recordings for problem in problems_of(each)]
    passed = [each["points"] for each in recordings]
    points = [
        point for point in passed[0] if all(point in others for others in passed) and not is_the_same_as_its_verb(point)
    ]
    kinds = Counter(point.partition("#")[0] for point in points)
    say(f"{len(points)} points in an undisturbed run of {recordings[0]['seconds']:.2f} s:")
    say(", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    assert len(points) >= LEAST_POINTS
    return points


def is_the_same_as_its_verb(point: str) -> bool:
    """Tell whether a point beneath a verb differs in nothing from one of the verb.

    A statement that commits alone is the whole of its verb, and after a COMMIT the verb is over.
    """
    return point.startswith("session.autocommit") or (point.startswith("session.commit") and point.endswith(":after"))


def problems_of(result: Result) -> list[str]:
    """Return what must never be, however slow the machine is."""
    where = f"{result['case'].get('point', 'undisturbed')} (folder {result['case']['what']}-{result['case']['index']})"
    found = [result["error"]] if result.get("error") else result.get("wrong", [])
    return [f"{where}: {problem}" for problem in found]


def is_inexact(result: Result, end_limit_s: float, most_extra: int | None) -> bool:
    """Tell whether a case took too long or too many attempts, or missed its point: it may have been the machine."""
    if not result.get("fired", True):
        return True
    too_many = most_extra is not None and any(times > most_extra for times in result["extra"].values())
    return result["seconds"] > end_limit_s or too_many


def judge(
    sweep: Sweep, function: str, results: list[Result], end_limit_s: float, most_extra: int | None, say: Say
) -> list[Result]:
    """Assert safety of all cases at once; run inexact ones again alone before they count.

    Returns:
        The results as they stand in the end.
    """
    problems = [problem for result in results for problem in problems_of(result)]
    assert not problems, f"{len(problems)} problems\n" + "\n".join(problems)
    again = [each for each in results if is_inexact(each, end_limit_s, most_extra)]
    settled = [each for each in results if each not in again]
    for attempt in range(TRIES_ALONE):
        if not again:
            break
        say(f"again alone ({attempt + 1}): {', '.join(each['case']['point'] for each in again)}")
        results = sweep(
            function, [{**each["case"], "what": f"{function}-again-{attempt}"} for each in again], alone=True
        )
        problems = [problem for result in results for problem in problems_of(result)]
        assert not problems, f"{len(problems)} problems\n" + "\n".join(problems)
        again = [each for each in results if is_inexact(each, end_limit_s, most_extra) and not each.get("late")]
        settled += [each for each in results if each not in again]
    slowest = max(each.get("seconds", 0.0) for each in settled)
    extra = Counter(sum(each["extra"].values()) for each in settled)
    say(f"{len(settled)} cases, slowest {slowest:.2f} s; extra attempts in all: {dict(sorted(extra.items()))}")
    locked = sum(each.get("locked", False) for each in settled)
    if locked:
        say(f"in {locked} cases the stopped worker held SQLite's write lock")
    missed = [f"{each['case']['point']}: {each}" for each in again]
    assert not missed, f"{len(missed)} cases still inexact\n" + "\n".join(missed)
    return settled
