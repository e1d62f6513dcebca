"""The checkpoints table: what each run has done, by position."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from durable.models.fields import InstantField
from durable.models.runs import WorkflowRun


class StepCheckpoint(models.Model):
    """The record of one durable operation of a run at one position."""

    pk = models.CompositePrimaryKey("run_id", "seq")
    run = models.ForeignKey(
        WorkflowRun,
        models.DO_NOTHING,
        db_column="run_pk",
        db_constraint=False,
        db_index=False,
        related_name="checkpoints",
    )
    seq = models.IntegerField(_("position"))
    name = models.CharField(_("name"), max_length=255)
    kind = models.CharField(_("kind"), max_length=16)
    status = models.CharField(_("status"), max_length=16)
    input = models.TextField(_("input"), null=True)
    output = models.TextField(_("output"), null=True)
    error = models.TextField(_("error"), null=True)
    attempts = models.IntegerField(_("attempts"), default=0)
    policy = models.TextField(null=True)
    worker_group = models.CharField(_("worker group"), max_length=255, null=True)
    events = models.TextField(_("events"), null=True)
    wake_at = InstantField(_("wakes at"), null=True, db_column="wake_at_us")
    parallel_group = models.IntegerField(_("parallel group"), null=True)
    last_heartbeat_at = InstantField(_("last heartbeat"), null=True, db_column="last_heartbeat_at_us")
    beat_by = models.CharField(max_length=64, null=True)
    progress = models.TextField(_("progress"), null=True)
    settled_order = models.IntegerField(null=True)
    enqueued_at = InstantField(_("enqueued"), null=True, db_column="enqueued_at_us")
    started_at = InstantField(_("started"), null=True, db_column="started_at_us")
    finished_at = InstantField(_("finished"), null=True, db_column="finished_at_us")

    class Meta:
        db_table = "durable_step_checkpoints"
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.run_id}:{self.seq}"
