import contextvars
import logging
from typing import Any

import pytest

from durable.authoring.current import MAX_EVENTS, StepContext, current_step, step_context
from durable.core.errors import OperationRefused, PayloadError, StepCancelled


class StillClock:
    def now_us(self) -> int:
        return 1_700_000_000_123_456

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError


def context(**given: Any) -> StepContext:
    return StepContext(run_id="r", step_id="r:2", attempt=1, clock=StillClock(), **given)


def test_outside_a_step_there_is_none():
    with pytest.raises(OperationRefused, match="step_context"):
        current_step()


def test_inside_it_is_found_and_afterwards_gone():
    here = context(last_progress={"row": 7})
    with step_context(here):
        found = current_step()

    assert found is here
    assert (found.run_id, found.step_id, found.attempt, found.last_progress) == ("r", "r:2", 1, {"row": 7})
    with pytest.raises(OperationRefused):
        current_step()


def test_a_fresh_context_sees_no_step():
    with step_context(context()), pytest.raises(OperationRefused):
        contextvars.Context().run(current_step)


def test_a_step_inside_a_step_is_left_again():
    outer, inner = context(), context()
    with step_context(outer):
        with step_context(inner):
            assert current_step() is inner
        assert current_step() is outer


def test_a_heartbeat_hands_over_its_progress_as_json():
    beats: list[str | None] = []
    here = context(beat=beats.append)
    here.heartbeat()
    here.heartbeat({"row": 7})

    assert beats == [None, '{"row":7}']


def test_a_heartbeat_of_a_cancelled_run_stops_the_step():
    beats: list[str | None] = []
    here = context(beat=beats.append, is_cancelled=lambda: True)

    assert here.cancelled
    with pytest.raises(StepCancelled):
        here.heartbeat(1)
    with pytest.raises(StepCancelled):
        here.raise_if_cancelled()
    assert beats == []


def test_a_live_run_is_not_cancelled():
    here = context()
    here.raise_if_cancelled()

    assert not here.cancelled


@pytest.mark.parametrize("tell", [lambda c: c.heartbeat({1}), lambda c: c.record_event("a", "ok", {1})])
def test_what_json_cannot_carry_is_refused(tell):
    with pytest.raises(PayloadError, match="r:2"):
        tell(context())


def test_lines_of_the_logger_are_kept_and_passed_on(caplog):
    caplog.set_level(logging.INFO, "durable.step")
    here = context()
    here.logger.info("row %d of %d", 1, 2, extra={"mine": 1})
    here.logger.warning("slow")
    here.logger.error("broken")
    here.logger.debug("unseen")

    assert [(each.level, each.message) for each in here.events] == [
        ("info", "row 1 of 2"),
        ("warn", "slow"),
        ("error", "broken"),
    ]
    assert here.events[0].at == 1_700_000_000_123
    assert [record.getMessage() for record in caplog.records] == ["row 1 of 2", "slow", "broken"]
    assert vars(caplog.records[0]) | {"run_id": "r", "step_id": "r:2", "mine": 1} == vars(caplog.records[0])
    assert caplog.records[0].filename == "test_current.py"


def test_lines_are_kept_when_nobody_listens(monkeypatch):
    monkeypatch.setattr(logging.getLogger("durable.step"), "disabled", True)
    here = context()
    here.logger.info("hello")

    assert [each.message for each in here.events] == ["hello"]


def test_a_line_that_cannot_be_formatted_is_kept_as_it_is():
    logging.getLogger("durable.step").setLevel(logging.CRITICAL)
    here = context()
    here.logger.info("%d", "x")
    logging.getLogger("durable.step").setLevel(logging.NOTSET)

    assert here.events[0].message == "%d"


def test_the_last_events_are_kept_and_long_lines_cut():
    here = context()
    for number in range(MAX_EVENTS + 50):
        here.record_event(f"row {number}", "ok")
    here.logger.info("x" * 10_000)

    assert len(here.events) == MAX_EVENTS
    assert here.events[0].name == "row 51"
    assert len(here.events[-1].message) == 2_000


def test_an_outcome_is_recorded_with_its_data():
    here = context()
    here.record_event("import", "failed", {"rows": (1, 2)})
    (event,) = here.events

    assert (event.name, event.status, event.level, event.data) == ("import", "failed", "error", {"rows": [1, 2]})
