"""Filters of the runs; none of them reads the whole table to find its choices."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from durable.authoring.registry import registry

RECENT_RUNS = 500


class WorkflowFilter(admin.SimpleListFilter):
    """Runs of one workflow: those that this process has, and those of recent runs."""

    title = _("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        """Return the names."""
        declared = {name for name, _version in registry.workflow_keys()}
        recent = model_admin.get_queryset(request).order_by("-id").values_list("workflow", flat=True)[:RECENT_RUNS]
        return [(name, name) for name in sorted(declared.union(recent))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the runs of the chosen workflow."""
        return queryset if self.value() is None else queryset.filter(workflow=self.value())


class ConsumedFilter(admin.SimpleListFilter):
    """Signals that wait, or were received."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, Any]]:
        """Return the two states."""
        return [("kept", _("kept")), ("consumed", _("consumed"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the signals in the chosen state."""
        if self.value() not in {"kept", "consumed"}:
            return queryset
        return queryset.filter(consumed_run__isnull=self.value() == "kept")
