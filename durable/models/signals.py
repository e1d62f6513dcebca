"""Signals: who waits for which token, and what was sent and not yet consumed."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from durable.models.fields import InstantField
from durable.models.runs import WorkflowRun


class SignalWaiter(models.Model):
    """A suspended run waits, at one position, for a signal on one token."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        WorkflowRun, models.DO_NOTHING, db_column="run_pk", db_constraint=False, db_index=False, related_name="waiters"
    )
    seq = models.IntegerField(_("position"))
    token = models.CharField(_("token"), max_length=255)

    class Meta:
        db_table = "durable_signal_waiters"
        verbose_name = _("signal waiter")
        verbose_name_plural = _("signal waiters")
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["run", "seq", "token"], name="durable_waiters_unique")]
        indexes = [models.Index(fields=["token"], name="durable_waiters_token")]

    def __str__(self) -> str:
        return self.token


class BufferedSignal(models.Model):
    """A signal as it was sent; consumed at most once, first in first out for each token."""

    id = models.BigAutoField(primary_key=True)
    token = models.CharField(_("token"), max_length=255)
    key = models.CharField(max_length=255, unique=True)
    payload = models.TextField(_("payload"))
    created_at = InstantField(_("sent"), db_column="created_at_us")
    consumed_run = models.BigIntegerField(null=True, db_column="consumed_run_pk")
    consumed_seq = models.IntegerField(null=True)
    consumed_at = InstantField(_("consumed"), null=True, db_column="consumed_at_us")

    class Meta:
        db_table = "durable_buffered_signals"
        verbose_name = _("kept signal")
        verbose_name_plural = _("kept signals")
        default_permissions = ("view", "delete")
        indexes = [
            models.Index(fields=["token", "id"], name="durable_signals_kept", condition=Q(consumed_run__isnull=True))
        ]

    def __str__(self) -> str:
        return self.token
