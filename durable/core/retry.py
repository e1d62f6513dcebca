"""Whether work that failed is tried again, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from durable.core.backoff import Backoff
from durable.core.durations import to_us
from durable.core.failure import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Say how often failed work is tried again.

    Attributes:
        retries: Further attempts after the first; 0 means one attempt in all.
        backoff: The waits between them.
    """

    retries: int
    backoff: Backoff

    def to_json(self) -> str:
        """Return the policy as JSON text, to be stored with the checkpoint, so that any instance can judge."""
        return json.dumps(
            {
                "retries": self.retries,
                "kind": self.backoff.kind,
                "base_us": to_us(self.backoff.base),
                "maximum_us": to_us(self.backoff.maximum),
                "jitter": self.backoff.jitter,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> RetryPolicy:
        """Read what ``to_json`` wrote."""
        facts = json.loads(text)
        backoff = Backoff(
            kind=facts["kind"],
            base=timedelta(microseconds=facts["base_us"]),
            maximum=timedelta(microseconds=facts["maximum_us"]),
            jitter=facts["jitter"],
        )
        return cls(retries=facts["retries"], backoff=backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryIn:
    """Try again after ``delay``."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again."""


def judge(failure: Failure, attempts_made: int, policy: RetryPolicy, draw: float) -> RetryIn | GiveUp:
    """Decide what follows a failed attempt.

    Args:
        failure: What the attempt failed with.
        attempts_made: Attempts so far, this one included, from 1.
        policy: How often to try.
        draw: Random number from 0 (inclusive) to 1, for the jitter.
    """
    if not failure.retryable or attempts_made > policy.retries:
        return GiveUp()
    return RetryIn(delay=policy.backoff.delay(attempts_made, draw))
