"""What this process has: the steps and workflows that were declared in it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from durable.authoring.refs import AsyncStep, Step, Workflow
from durable.core.errors import (
    ConfigurationError,
    StepNotRegistered,
    VersionNotRegistered,
    WorkflowNotRegistered,
)

AnyStep = Step[..., Any] | AsyncStep[..., Any]
AnyWorkflow = Workflow[..., Any]


class Registry:
    """Find steps and workflows by name.

    A declaration without a name is filed when it is first looked for, because its name needs the label of its app.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._unfiled: list[AnyStep | AnyWorkflow] = []
        self._steps: dict[str, AnyStep] = {}
        self._workflows: dict[str, dict[str, AnyWorkflow]] = {}

    def add_step(self, step: AnyStep) -> None:
        """Add a step; the same function declared again, as by a reload, replaces itself.

        Raises:
            ConfigurationError: Another function has the name.
        """
        self._add(step)

    def add_workflow(self, workflow: AnyWorkflow) -> None:
        """Add a workflow; the same function declared again, as by a reload, replaces itself.

        Raises:
            ConfigurationError: Another function has the name and version.
        """
        self._add(workflow)

    def step(self, name: str) -> AnyStep:
        """Return a step.

        Raises:
            StepNotRegistered: This process has none of this name.
        """
        self._file_all()
        try:
            return self._steps[name]
        except KeyError:
            raise StepNotRegistered(name, self.step_names()) from None

    def workflow(self, name: str, version: str | None = None) -> AnyWorkflow:
        """Return a workflow.

        Args:
            name: Its name.
            version: Its version; None takes the newest, where ``"10"`` is newer than ``"9"``.

        Raises:
            WorkflowNotRegistered: This process has none of this name.
            VersionNotRegistered: This process has the name, but not the version.
        """
        self._file_all()
        versions = self._workflows.get(name)
        if not versions:
            raise WorkflowNotRegistered(name, tuple(self._workflows))
        if version is None:
            return versions[max(versions, key=version_order)]
        try:
            return versions[version]
        except KeyError:
            raise VersionNotRegistered(name, version, tuple(versions)) from None

    def workflow_keys(self) -> tuple[tuple[str, str], ...]:
        """Return name and version of every workflow, sorted."""
        self._file_all()
        return tuple(sorted((name, version) for name, versions in self._workflows.items() for version in versions))

    def step_names(self) -> tuple[str, ...]:
        """Return the name of every step, sorted."""
        self._file_all()
        return tuple(sorted(self._steps))

    def problems(self) -> list[tuple[str, str]]:
        """Return what is wrong with declarations: pairs of ``"step <name>"`` or ``"workflow <name>"`` and problem."""
        found: list[tuple[str, str]] = []
        try:
            self._file_all()
        except ConfigurationError as error:
            found.append(("registry", str(error)))
        workflows = [each for versions in self._workflows.values() for each in versions.values()]
        found.extend(
            (f"{declared.kind} {declared.name}", declared.binding.problem)
            for declared in [*self._steps.values(), *workflows]
            if declared.binding.problem is not None
        )
        return found

    def _add(self, declared: AnyStep | AnyWorkflow) -> None:
        with self._lock:
            if declared.has_given_name:
                self._file(declared)
            else:
                self._unfiled.append(declared)

    def _file_all(self) -> None:
        if not self._unfiled:
            return
        with self._lock:
            while self._unfiled:
                self._file(self._unfiled[0])
                del self._unfiled[0]

    def _file(self, declared: AnyStep | AnyWorkflow) -> None:
        if isinstance(declared, Workflow):
            versions = self._workflows.setdefault(declared.name, {})
            _refuse_other(versions.get(declared.version), declared, f", version {declared.version!r}")
            versions[declared.version] = declared
        else:
            _refuse_other(self._steps.get(declared.name), declared, "")
            self._steps[declared.name] = declared

    @contextmanager
    def emptied(self) -> Iterator[Registry]:
        """Be empty inside the block, and as before after it."""
        before = self._unfiled, self._steps, self._workflows
        self._unfiled, self._steps, self._workflows = [], {}, {}
        try:
            yield self
        finally:
            self._unfiled, self._steps, self._workflows = before


def _refuse_other(existing: AnyStep | AnyWorkflow | None, declared: AnyStep | AnyWorkflow, version: str) -> None:
    if existing is not None and existing.origin != declared.origin:
        raise ConfigurationError(
            f"The {declared.kind} {declared.name!r}{version} is declared twice: by {existing.origin} and by "
            f"{declared.origin}. Give one of them another name{' or version' if version else ''}."
        )


def version_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which ``"10"`` comes after ``"9"``, and ``"1.10"`` after ``"1.9"``."""
    parts = re.findall(r"[0-9]+|[^0-9]+", version)
    return tuple((1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts)


registry = Registry()
"""Where ``@step`` and ``@workflow`` put what they declare."""


@contextmanager
def override_registry() -> Iterator[Registry]:
    """Let the process begin with an empty registry inside the block, for tests."""
    with registry.emptied() as emptied:
        yield emptied
