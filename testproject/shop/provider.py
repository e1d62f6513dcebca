"""A payment provider that behaves like one: slow, at times unavailable, at times without an answer.

What it does depends on the order and the attempt only, so that each run of the demo meets the same troubles.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SLOWEST_S = 0.200
FASTEST_S = 0.050
UNAVAILABLE = 0.08
ANSWER_LOST = 0.05
EXPIRED_CARD = "tok_expired"


class ProviderError(Exception):
    """The provider did not do, or did not say, what it was asked for; asking again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Say what an attempt will meet.

    Attributes:
        there_s: Seconds until the provider has taken the money.
        back_s: Seconds until its answer is here.
        is_unavailable: It takes nothing.
        loses_answer: It takes the money, and the answer never comes.
    """

    there_s: float
    back_s: float
    is_unavailable: bool
    loses_answer: bool


def weather_of(order_id: int, attempt: int) -> Weather:
    """Return what this attempt to charge this order meets."""
    chance = random.Random(f"{order_id}:{attempt}")
    whole_s = chance.uniform(FASTEST_S, SLOWEST_S)
    share, luck = chance.random(), chance.random()
    return Weather(
        there_s=whole_s * share,
        back_s=whole_s * (1 - share),
        is_unavailable=luck < UNAVAILABLE,
        loses_answer=UNAVAILABLE <= luck < UNAVAILABLE + ANSWER_LOST,
    )
