import random
import uuid

import pytest

from durable.core.errors import InvalidName, InvalidRunId
from durable.core.ids import RandomIds, check_name, check_run_id


class StillClock:
    def __init__(self, now_us: int) -> None:
        self.us = now_us

    def now_us(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError


def seeded(seed: int = 1, now_us: int = 1_700_000_000_000_000) -> RandomIds:
    return RandomIds(random.Random(seed), StillClock(now_us))


def test_run_ids_sort_by_the_microsecond_of_their_creation():
    clock = StillClock(1_700_000_000_000_000)
    ids = RandomIds(random.Random(1), clock)
    made = []
    for _ in range(3_000):
        made.append(ids.run_id())
        clock.us += 1

    assert made == sorted(made)


def test_a_run_id_is_a_uuid_of_version_7_in_lower_case():
    made = seeded().run_id()

    assert uuid.UUID(made).version == 7
    assert uuid.UUID(made).variant == uuid.RFC_4122
    assert made == made.lower()
    assert check_run_id(made) == made


def test_run_ids_of_one_instant_differ():
    ids = seeded()

    assert len({ids.run_id() for _ in range(1_000)}) == 1_000


def test_a_seed_makes_everything_repeatable():
    def draw(ids: RandomIds) -> list[object]:
        items = list(range(10))
        ids.shuffle(items)
        return [ids.run_id(), ids.token(), ids.uuid(), ids.random(), items]

    assert draw(seeded(7)) == draw(seeded(7))
    assert draw(seeded(7)) != draw(seeded(8))


def test_a_token_has_two_digits_for_each_byte():
    assert [len(seeded(seed).token(4)) for seed in range(100)] == [8] * 100
    assert len(seeded().token()) == 32


def test_a_uuid_is_random():
    assert seeded().uuid().version == 4


def test_without_arguments_the_operating_system_is_asked():
    assert RandomIds().run_id() != RandomIds().run_id()


GOOD = ["a", "checkout:7", "ä漢🏳️‍🌈", "with space", "x" * 255, "\U0001f600" * 255]
BAD = ["", "x" * 256, "a\x00", "a\nb", "a\x1f", "\x7f", "\x85", "\ud800", "\udfff", None, 7, b"a"]


@pytest.mark.parametrize("text", GOOD)
def test_names_of_every_script_are_taken(text):
    assert check_run_id(text) == text
    assert check_name("queue", text) == text


@pytest.mark.parametrize("text", BAD)
def test_names_that_a_database_may_not_hold_are_refused(text):
    with pytest.raises(InvalidRunId, match="1 to 255 characters"):
        check_run_id(text)
    with pytest.raises(InvalidName, match=r"The queue .*1 to 255 characters"):
        check_name("queue", text)


def test_a_refusal_can_be_printed_whatever_the_name():
    with pytest.raises(InvalidRunId) as caught:
        check_run_id("\ud800" * 1_000)

    assert len(str(caught.value).encode()) < 300
