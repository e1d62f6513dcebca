"""The runs table: one row per execution of a workflow, which is also its entry in the run queue."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from durable.core.states import TERMINAL, RunStatus
from durable.models.fields import InstantField

STATUS_LABELS = [
    (RunStatus.PENDING.value, _("pending")),
    (RunStatus.RUNNING.value, _("running")),
    (RunStatus.SUSPENDED.value, _("suspended")),
    (RunStatus.BLOCKED.value, _("blocked")),
    (RunStatus.CANCELLING.value, _("cancelling")),
    (RunStatus.COMPLETED.value, _("completed")),
    (RunStatus.FAILED.value, _("failed")),
    (RunStatus.CANCELLED.value, _("cancelled")),
    (RunStatus.DEAD.value, _("dead")),
]
WAITING = [RunStatus.PENDING.value, RunStatus.SUSPENDED.value, RunStatus.BLOCKED.value]
HELD = [RunStatus.RUNNING.value, RunStatus.CANCELLING.value]
OPEN = [status.value for status in RunStatus if status not in TERMINAL]


class WorkflowRun(models.Model):
    """One execution of a workflow. Written by the store's statements only; the ORM reads."""

    id = models.BigAutoField(primary_key=True)
    run_id = models.CharField(_("run id"), max_length=255, unique=True)
    workflow = models.CharField(_("workflow"), max_length=255)
    version = models.CharField(_("version"), max_length=64)
    origin = models.CharField(_("origin"), max_length=255, default="")
    namespace = models.CharField(_("namespace"), max_length=255, default="default")
    partition = models.CharField(_("partition"), max_length=255, default="")
    priority = models.IntegerField(_("priority"), default=0)
    status = models.CharField(_("status"), max_length=16, choices=STATUS_LABELS)
    note = models.TextField(_("note"), default="")
    waiting_on = models.CharField(_("waiting on"), max_length=255, default="")
    tags = models.TextField(_("tags"), default="[]")
    search_attributes = models.TextField(_("search attributes"), default="{}")
    input = models.TextField(_("input"))
    input_shape = models.CharField(_("input shape"), max_length=8)
    output = models.TextField(_("output"), null=True)
    error = models.TextField(_("error"), null=True)
    parent = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_column="parent_pk",
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    parent_seq = models.IntegerField(null=True)
    generation = models.IntegerField(_("generation"), default=0)
    pending_seq = models.IntegerField(default=1)
    settled_steps = models.IntegerField(default=0)
    recovery_attempts = models.IntegerField(_("recovery attempts"), default=0)
    wake_at = InstantField(_("wakes at"), null=True, db_column="wake_at_us")
    wake_requested_at = InstantField(_("wake requested at"), null=True, db_column="wake_requested_at_us")
    lease_owner = models.CharField(_("lease owner"), max_length=64, null=True)
    lease_epoch = models.BigIntegerField(_("lease epoch"), default=0)
    lease_expires_at = InstantField(_("lease expires at"), null=True, db_column="lease_expires_at_us")
    awaiting_decision_task_id = models.CharField(max_length=64, null=True)
    execution_timeout_us = models.BigIntegerField(null=True)
    deadline_at = InstantField(_("deadline"), null=True, db_column="deadline_at_us")
    created_at = InstantField(_("created"), db_column="created_at_us")
    started_at = InstantField(_("started"), null=True, db_column="started_at_us")
    updated_at = InstantField(_("updated"), db_column="updated_at_us")
    finished_at = InstantField(_("finished"), null=True, db_column="finished_at_us")

    class Meta:
        db_table = "durable_workflow_runs"
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        default_permissions = ("view", "delete")
        permissions = [("retry_run", "Can retry a run"), ("view_payload", "Can see inputs, outputs and errors")]
        indexes = [
            models.Index(fields=["wake_at", "id"], name="durable_runs_claim", condition=Q(status__in=WAITING)),
            models.Index(fields=["id"], name="durable_runs_held", condition=Q(status__in=HELD)),
            models.Index(
                fields=["deadline_at"],
                name="durable_runs_deadline",
                condition=Q(status__in=OPEN, deadline_at__isnull=False),
            ),
            models.Index(fields=["parent"], name="durable_runs_parent", condition=Q(parent__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.run_id
