"""Default names: ``"<app label>.<function name>"``.

Only Django knows app labels, and it knows them late; so the app installs the answer, and names are read when needed.
"""

from __future__ import annotations

from collections.abc import Callable

AppLabelResolver = Callable[[str], str]
"""Takes the dotted path of a module and returns the label of the app that it belongs to."""


def top_package(module: str) -> str:
    """Return the first part of a module's dotted path: the label where no app is known."""
    return module.partition(".")[0]


_resolver: list[AppLabelResolver] = [top_package]


def set_app_label_resolver(resolver: AppLabelResolver) -> None:
    """Make this function the one that finds app labels."""
    _resolver[:] = [resolver]


def default_name(function: Callable[..., object]) -> str:
    """Return the name of a function for which none was given."""
    own = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or ""
    return f"{_resolver[0](module)}.{own}"
