"""Marks on verbs, from which tests make their lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Verb = TypeVar("Verb", bound=Callable[..., object])


def mutating(verb: Verb) -> Verb:
    """Mark a verb that changes rows: repeating it must give its first outcome."""
    verb.__dict__["mutating"] = True
    return verb
