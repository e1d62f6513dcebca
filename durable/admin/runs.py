"""Runs: the list, the page of one run with its checkpoints, and the retry."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from durable.admin import actions, display, timeline
from durable.admin.base import ReadOnlyAdmin, may_view_payload, shown_error, shown_payload
from durable.admin.filters import WorkflowFilter
from durable.conf import get_config
from durable.core.showing import show_span
from durable.core.states import RETRYABLE, TERMINAL, RunStatus
from durable.models import WorkflowRun

PAYLOAD_FIELDS = ("input_shown", "output_shown", "error_shown")
HIDDEN_FIELDS = ("input_hidden", "output_hidden", "error_hidden")


@admin.register(WorkflowRun)
class WorkflowRunAdmin(ReadOnlyAdmin):
    """Runs, read-only but for the retry."""

    list_display = ("run", "definition", "state", "waits_for", "started", "duration", "tag_list")
    list_filter = ("status", WorkflowFilter)
    lookups = frozenset({"status__exact", "workflow"})
    prefix_field = "run_id"
    search_help_text = _("Finds runs by the beginning of their id.")
    heavy_fields = ("input", "output", "error", "search_attributes")
    actions = ("retry_selected",)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Put payloads on the page, or what stands in their place."""
        payloads = PAYLOAD_FIELDS if may_view_payload(request) else HIDDEN_FIELDS
        facts = ("run_name", "definition", "state", "note_shown", "waits_for", "tag_list", "namespace", "priority")
        times = ("created", "started", "finished", "duration", "deadline", "recovery_attempts", "holder")
        return (
            (None, {"fields": facts}),
            (_("Times"), {"fields": times, "classes": ("durable-times",)}),
            (_("Payloads"), {"fields": payloads}),
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Let no field be changed."""
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

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
            context |= {"timeline": self._timeline(request, run), "object_tools": self._object_tools(request, run)}
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

    def _object_tools(self, request: HttpRequest, run: WorkflowRun) -> list[Any]:
        applies = RunStatus(run.status) in RETRYABLE and actions.may_retry(request)
        return [self._retry_tool(request, run)] if applies else []

    def _retry_tool(self, request: HttpRequest, run: WorkflowRun) -> Any:
        """Return a tool as django-admin-extensions knows them: a callable that takes the template's context."""

        def tool(context: Context, link_class: str = "") -> str:
            return render_to_string(
                "admin/durable/retry_tool.html", {"action": self._retry_address(run), "link_class": link_class}, request
            )

        return tool

    def _retry_address(self, run: WorkflowRun) -> str:
        return reverse("admin:durable_workflowrun_retry", args=[run.pk], current_app=self.admin_site.name)

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

    @admin.display(description=_("run"))
    def run(self, run: WorkflowRun) -> str:
        """Return the id, which leads to the run's page."""
        return display.isolated(run.run_id)

    run_name = admin.display(description=_("run id"))(run)

    @admin.display(description=_("workflow"))
    def definition(self, run: WorkflowRun) -> str:
        """Return name and version of the workflow."""
        return display.isolated(f"{run.workflow}@{run.version}")

    @admin.display(description=_("status"))
    def state(self, run: WorkflowRun) -> str:
        """Return the status as colour and word."""
        return display.status_badge(run.status)

    @admin.display(description=_("note"))
    def note_shown(self, run: WorkflowRun) -> str:
        """Return why the run stands where it does."""
        return display.isolated(run.note)

    @admin.display(description=_("waiting on"))
    def waits_for(self, run: WorkflowRun) -> str:
        """Return what a suspended run waits for."""
        return display.isolated(run.waiting_on)

    @admin.display(description=_("created"))
    def created(self, run: WorkflowRun) -> Any:
        """Return when the run was created."""
        return display.instant(run.created_at)

    @admin.display(description=_("started"))
    def started(self, run: WorkflowRun) -> Any:
        """Return when the run was first picked up."""
        return display.instant(run.started_at)

    @admin.display(description=_("finished"))
    def finished(self, run: WorkflowRun) -> Any:
        """Return when the run ended."""
        return display.instant(run.finished_at)

    @admin.display(description=_("deadline"))
    def deadline(self, run: WorkflowRun) -> Any:
        """Return when the run's time limit passes."""
        return display.instant(run.deadline_at)

    @admin.display(description=_("duration"))
    def duration(self, run: WorkflowRun) -> str:
        """Return how long the run took, or has been going on."""
        now = None if run.status in TERMINAL else timezone.now()
        return show_span(run.started_at, run.finished_at, now) or display.NOTHING

    @admin.display(description=_("tags"))
    def tag_list(self, run: WorkflowRun) -> str:
        """Return the tags."""
        return display.tag_list(run.tags)

    @admin.display(description=_("held by"))
    def holder(self, run: WorkflowRun) -> str:
        """Return which instance executes the run."""
        return display.isolated(run.lease_owner or "")

    @admin.display(description=_("input"))
    def input_shown(self, run: WorkflowRun) -> str:
        """Return the input."""
        return shown_payload(run.input)

    @admin.display(description=_("output"))
    def output_shown(self, run: WorkflowRun) -> str:
        """Return the output."""
        return shown_payload(run.output)

    @admin.display(description=_("error"))
    def error_shown(self, run: WorkflowRun) -> str:
        """Return the error."""
        return shown_error(run.error)

    @admin.display(description=_("input"))
    def input_hidden(self, run: WorkflowRun) -> str:
        """Stand in the place of the input."""
        return display.hidden()

    output_hidden = admin.display(description=_("output"))(lambda self, run: display.hidden())
    error_hidden = admin.display(description=_("error"))(lambda self, run: display.hidden())
