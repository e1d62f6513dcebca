"""Messages of the ``db`` transport: step tasks, results and wakes as rows that one taker holds."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from durable.models.fields import InstantField


class TransportMessage(models.Model):
    """A message in a queue; held by its taker for a lease at a time and deleted when it is settled."""

    id = models.BigAutoField(primary_key=True)
    queue = models.CharField(_("queue"), max_length=255)
    kind = models.CharField(_("kind"), max_length=16)
    body = models.TextField(_("body"))
    run = models.BigIntegerField(null=True, db_column="run_pk")
    seq = models.IntegerField(null=True)
    dedupe_key = models.CharField(max_length=255, unique=True, null=True)
    namespace = models.CharField(_("namespace"), max_length=255, default="default")
    priority = models.IntegerField(_("priority"), default=0)
    visible_at = InstantField(_("visible at"), db_column="visible_at_us")
    held_by = models.CharField(_("held by"), max_length=64, null=True)
    held_until = InstantField(_("held until"), null=True, db_column="held_until_us")
    takes = models.IntegerField(_("takes"), default=0)
    created_at = InstantField(_("created"), db_column="created_at_us")

    class Meta:
        db_table = "durable_transport_messages"
        verbose_name = _("transport message")
        verbose_name_plural = _("transport messages")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["queue", "id"], name="durable_messages_ready", condition=Q(held_by__isnull=True)),
            models.Index(fields=["id"], name="durable_messages_held", condition=Q(held_by__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.queue}#{self.id}"
