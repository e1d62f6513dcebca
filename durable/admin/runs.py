"""Runs: the list, the page of one run with its checkpoints, and the retry."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from durable.admin import actions, display, timeline
from durable.admin.base import ReadOnlyAdmin, may_view_payload
from durable.admin.facts import duration_of, facts_of, payloads_of
from durable.admin.filters import WorkflowFilter
from durable.admin.tools import PostTool
from durable.conf import get_config
from durable.core.states import RETRYABLE, RunStatus
from durable.models import WorkflowRun


@admin.register(WorkflowRun)
class WorkflowRunAdmin(ReadOnlyAdmin):
    """Runs, read-only but for the retry."""

    list_display = ("run", "definition", "state", "started", "duration", "tag_list")
    list_filter = ("status", WorkflowFilter)
    lookups = frozenset({"status__exact", "workflow"})
    prefix_field = "run_id"
    search_help_text = _("Finds runs by the beginning of their id.")
    heavy_fields = ("input", "output", "error", "search_attributes")
    actions = ("retry_selected",)
    # The page's own template shows the facts; there is no field to edit.
    fields = ()

    def get_urls(self) -> list[URLPattern]:
        """Add the address of the retry."""
        retry = path(
            "<int:run_pk>/retry/", self.admin_site.admin_view(self.retry_view), name="durable_workflowrun_retry"
        )
        return [retry, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one run with a page of its checkpoints."""
        run = self.get_object(request, object_id)
        context: dict[str, Any] = dict(extra_context or {})
        if isinstance(run, WorkflowRun) and self.has_view_permission(request, run):
            context |= {
                "facts": facts_of(run),
                "payloads": payloads_of(run, may_view_payload=may_view_payload(request)),
                "timeline": self._timeline(request, run),
                "object_tools": self._object_tools(request, run),
            }
        return super().change_view(request, object_id, form_url, context)

    def _timeline(self, request: HttpRequest, run: WorkflowRun) -> timeline.Page:
        config, first_seq = get_config(), request.GET.get("from", "")
        return timeline.read_page(
            run.id,
            alias=config.database,
            first_seq=min(int(first_seq), 2**31 - 1) if first_seq.isdecimal() and first_seq.isascii() else 0,
            now=timezone.now(),
            redact=config.redact,
            may_view_payload=may_view_payload(request),
        )

    def _object_tools(self, request: HttpRequest, run: WorkflowRun) -> list[PostTool]:
        if RunStatus(run.status) not in RETRYABLE or not actions.may_retry(request):
            return []
        address = reverse("admin:durable_workflowrun_retry", args=[run.pk], current_app=self.admin_site.name)
        return [PostTool(request=request, address=address, label=_("Retry"))]

    def retry_view(self, request: HttpRequest, run_pk: int) -> HttpResponse:
        """Retry one run and go back to its page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        run = self.get_object(request, str(run_pk))
        if not self.has_view_permission(request, run) or not self.has_retry_permission(request):
            raise PermissionDenied
        if not isinstance(run, WorkflowRun):
            raise Http404
        actions.retry_runs(self, request, [run])
        page = reverse("admin:durable_workflowrun_change", args=[run.pk], current_app=self.admin_site.name)
        return HttpResponseRedirect(page)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may retry runs."""
        return actions.may_retry(request)

    @admin.action(description=_("Retry selected runs"), permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[WorkflowRun]) -> None:
        """Retry what was ticked."""
        actions.retry_runs(self, request, queryset.order_by("id").iterator(chunk_size=200))

    @admin.display(description=_("run id"))
    def run(self, run: WorkflowRun) -> str:
        """Return the id, which leads to the run's page."""
        return display.isolated(run.run_id)

    @admin.display(description=_("workflow"))
    def definition(self, run: WorkflowRun) -> str:
        """Return name and version of the workflow."""
        return display.breakable(f"{run.workflow}@{run.version}")

    @admin.display(description=_("status, waiting on"))
    def state(self, run: WorkflowRun) -> str:
        """Return the status as colour and word, and what the run waits for."""
        return display.status_with(run.status, run.waiting_on or run.note)

    @admin.display(description=_("started"))
    def started(self, run: WorkflowRun) -> str:
        """Return when the run was first picked up."""
        return display.instant(run.started_at)

    @admin.display(description=_("duration"))
    def duration(self, run: WorkflowRun) -> str:
        """Return how long the run took, or has been going on."""
        return duration_of(run) or display.NOTHING

    @admin.display(description=_("tags"))
    def tag_list(self, run: WorkflowRun) -> str:
        """Return the tags."""
        return display.tag_list(run.tags)
