"""Messages of the ``db`` transport: what is queued, and who holds it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from durable.admin import display
from durable.admin.base import ReadOnlyAdmin, may_view_payload, shown_payload
from durable.models import TransportMessage


@admin.register(TransportMessage)
class TransportMessageAdmin(ReadOnlyAdmin):
    """Step tasks and wakes in their queues."""

    list_display = ("queue_shown", "kind", "run_shown", "created", "visible", "holder", "held", "takes")
    prefix_field = "queue"
    search_help_text = _("Finds messages by the beginning of their queue.")
    heavy_fields = ("body",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Put the body, which holds a step's input, on the page, or what stands in its place."""
        return (*self.list_display, "body_shown" if may_view_payload(request) else "body_hidden")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Let no field be changed."""
        return self.get_fields(request, obj)

    @admin.display(description=_("queue"))
    def queue_shown(self, message: TransportMessage) -> str:
        """Return the queue."""
        return display.isolated(message.queue)

    @admin.display(description=_("run"))
    def run_shown(self, message: TransportMessage) -> str:
        """Return a link to the run that the message is about."""
        position = "" if message.seq is None else f":{message.seq}"
        return display.run_link(message.run, f"#{message.run}{position}", self.admin_site.name)

    @admin.display(description=_("created"))
    def created(self, message: TransportMessage) -> str:
        """Return when the message was put in the queue."""
        return display.instant(message.created_at)

    @admin.display(description=_("visible from"))
    def visible(self, message: TransportMessage) -> str:
        """Return from when the message may be taken."""
        return display.instant(message.visible_at)

    @admin.display(description=_("held by"))
    def holder(self, message: TransportMessage) -> str:
        """Return which instance has taken the message."""
        return display.isolated((message.held_by or "")[:8])

    @admin.display(description=_("held until"))
    def held(self, message: TransportMessage) -> str:
        """Return until when the message is held."""
        return display.instant(message.held_until)

    @admin.display(description=_("body"))
    def body_shown(self, message: TransportMessage) -> str:
        """Return the body."""
        return shown_payload(message.body)

    @admin.display(description=_("body"))
    def body_hidden(self, message: TransportMessage) -> str:
        """Stand in the place of the body."""
        return display.hidden()
