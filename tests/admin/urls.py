"""Addresses with an admin site of a project's own."""

from django.contrib import admin
from django.urls import path

from durable.admin import SignalWaiterAdmin, WorkflowRunAdmin
from durable.models import SignalWaiter, WorkflowRun

ops = admin.AdminSite(name="ops")
ops.register(WorkflowRun, WorkflowRunAdmin)
ops.register(SignalWaiter, SignalWaiterAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("ops/", ops.urls)]
