"""What became of one operand of a gather whose mode is ``settled``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from durable.core.errors import DurableError

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Ok(Generic[R_co]):
    """Hold the value of an operand that succeeded."""

    value: R_co


@dataclass(frozen=True, slots=True)
class Failed:
    """Hold the error of an operand that failed for good."""

    error: DurableError
