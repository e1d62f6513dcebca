"""Fail-points have names, are counted, and do what the plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.core.errors import ConfigurationError
from durable.store.errors import ConnectionTrouble, TransientTrouble
from durable.testing.failpoints import Call, Failpoints, parse_plan


class Sender:
    """A port."""

    name = "sender"

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send(self, number: int) -> int:
        self.sent.append(number)
        return number


def test_calls_of_a_port_are_named_and_counted(tmp_path: Path):
    record = tmp_path / "points"
    port = Failpoints(record=record).watch("transport", Sender())

    port.send(1)
    port.send(2)

    assert [line.split()[1] for line in record.read_text().splitlines()] == [
        "transport.send#1:before",
        "transport.send#1:after",
        "transport.send#2:before",
        "transport.send#2:after",
    ]
    assert port.name == "sender"


def test_a_refused_call_is_not_made():
    sender = Sender()
    port = Failpoints({"transport.send#2:before": "raise:TransientTrouble"}).watch("transport", sender)
    port.send(1)

    with pytest.raises(TransientTrouble):
        port.send(2)

    assert sender.sent == [1]


def test_a_call_whose_answer_is_lost_is_made():
    sender = Sender()
    port = Failpoints(parse_plan("transport.send#1:before=raise-after")).watch("transport", sender)

    with pytest.raises(ConnectionTrouble):
        port.send(1)

    assert sender.sent == [1]


def test_observers_see_arguments_and_results():
    seen: list[Call] = []
    Failpoints(observers=[seen.append]).watch("transport", Sender()).send(7)

    assert [(call.moment, call.args, call.result) for call in seen] == [("before", (7,), None), ("after", (7,), 7)]


def test_the_environment_says_what_is_to_happen():
    assert Failpoints.from_environment({}) is None

    failpoints = Failpoints.from_environment(
        {"DURABLE_FAILPOINTS": "store.look#1:after=sleep:0.1; store.look#2:before=kill"}
    )

    assert failpoints is not None
    assert failpoints.plan == {"store.look#1:after": "sleep:0.1", "store.look#2:before": "kill"}


@pytest.mark.parametrize(
    "text",
    ["store.look=kill", "store.look#1=kill", "store.look#1:after=explode", "store.look#1:after=raise:ValueError"],
)
def test_a_plan_that_cannot_be_read_is_refused(text: str):
    with pytest.raises(ConfigurationError):
        parse_plan(text)
