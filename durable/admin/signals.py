"""Signals: what was sent and not yet consumed, and who waits for what."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from durable.admin import display
from durable.admin.base import ReadOnlyAdmin, may_view_payload, shown_payload
from durable.admin.filters import ConsumedFilter
from durable.models import BufferedSignal, SignalWaiter


@admin.register(BufferedSignal)
class BufferedSignalAdmin(ReadOnlyAdmin):
    """Signals as they were sent."""

    list_display = ("token_shown", "sent", "consumed", "consumer")
    list_filter = (ConsumedFilter,)
    lookups = frozenset({"state"})
    prefix_field = "token"
    search_help_text = _("Finds signals by the beginning of their token.")
    heavy_fields = ("payload",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Put the payload on the page, or what stands in its place."""
        return (*self.list_display, "payload_shown" if may_view_payload(request) else "payload_hidden")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Let no field be changed."""
        return self.get_fields(request, obj)

    @admin.display(description=_("token"))
    def token_shown(self, signal: BufferedSignal) -> str:
        """Return the token."""
        return display.isolated(signal.token)

    @admin.display(description=_("sent"))
    def sent(self, signal: BufferedSignal) -> str:
        """Return when the signal was sent."""
        return display.instant(signal.created_at)

    @admin.display(description=_("consumed"))
    def consumed(self, signal: BufferedSignal) -> str:
        """Return when a run received the signal."""
        return display.instant(signal.consumed_at)

    @admin.display(description=_("consumed by"))
    def consumer(self, signal: BufferedSignal) -> str:
        """Return a link to the run that received the signal."""
        return display.run_link(signal.consumed_run, f"#{signal.consumed_run}", self.admin_site.name)

    @admin.display(description=_("payload"))
    def payload_shown(self, signal: BufferedSignal) -> str:
        """Return the payload."""
        return shown_payload(signal.payload)

    @admin.display(description=_("payload"))
    def payload_hidden(self, signal: BufferedSignal) -> str:
        """Stand in the place of the payload."""
        return display.hidden()


@admin.register(SignalWaiter)
class SignalWaiterAdmin(ReadOnlyAdmin):
    """Runs that wait for a signal."""

    list_display = ("token_shown", "waiting_run", "seq")
    list_select_related = ("run",)
    heavy_fields = ("run__input", "run__output", "run__error", "run__search_attributes")
    fields = readonly_fields = list_display
    prefix_field = "token"
    search_help_text = _("Finds waiting runs by the beginning of the token.")

    @admin.display(description=_("token"))
    def token_shown(self, waiter: SignalWaiter) -> str:
        """Return the token."""
        return display.isolated(waiter.token)

    @admin.display(description=_("run"))
    def waiting_run(self, waiter: SignalWaiter) -> str:
        """Return a link to the run that waits."""
        return display.run_link(waiter.run_id, waiter.run.run_id, self.admin_site.name)
