"""Durable workflows for Django.

Everything that a workflow or a step is written with is imported here and needs no configured Django. What touches the
database lives in ``durable.api`` and is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from durable import errors
from durable.authoring.context import Context
from durable.authoring.current import StepContext, current_step
from durable.authoring.decorators import step, workflow
from durable.authoring.handles import Run
from durable.authoring.outcomes import Failed, Ok
from durable.authoring.refs import Call, Ref, ref
from durable.core.errors import DurableError, FatalError, StepFailed
from durable.core.failure import Failure
from durable.core.states import RunStatus

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "Call",
    "Context",
    "DurableError",
    "Failed",
    "Failure",
    "FatalError",
    "Ok",
    "Ref",
    "Run",
    "RunStatus",
    "StepContext",
    "StepFailed",
    "current_step",
    "errors",
    "ref",
    "step",
    "workflow",
]

_LAZY_MODULES = frozenset({"api"})


def __getattr__(name: str) -> ModuleType:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES})
