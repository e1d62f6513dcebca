"""What a user can do to runs: through ``durable.api``, logged with the user's name, and told as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from django.contrib import messages
from django.contrib.admin.options import ModelAdmin
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext

from durable import api
from durable.core.errors import DurableError, RunNotFound, WrongState
from durable.models import WorkflowRun

RETRY = "durable.retry_run"
MOST_AT_ONCE = 1_000
MOST_REASONS = 5


@dataclass(slots=True)
class Outcome:
    """What became of the chosen runs."""

    done: list[WorkflowRun] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    is_cut: bool = False


def may_retry(request: HttpRequest) -> bool:
    """Tell whether the user may retry runs."""
    return request.user.has_perm(RETRY)


def retry_runs(model_admin: ModelAdmin[WorkflowRun], request: HttpRequest, runs: Iterable[WorkflowRun]) -> Outcome:
    """Retry runs, at most 1,000; log each and tell the user what was done, what was skipped and why."""
    outcome = Outcome()
    remaining = iter(runs)
    for run in islice(remaining, MOST_AT_ONCE):
        reason = _retry(run)
        if reason is None:
            model_admin.log_change(request, run, gettext("Retried."))
            outcome.done.append(run)
        else:
            outcome.skipped.append((run.run_id, reason))
    outcome.is_cut = next(remaining, None) is not None
    _tell(model_admin, request, outcome)
    return outcome


def _retry(run: WorkflowRun) -> str | None:
    try:
        api.retry(run.run_id, using=run._state.db)
    except WrongState as error:
        return gettext("it is %(status)s") % {"status": error.status}
    except RunNotFound:
        return gettext("it is gone")
    except DurableError as error:
        return str(error)
    return None


def _tell(model_admin: ModelAdmin[WorkflowRun], request: HttpRequest, outcome: Outcome) -> None:
    done, skipped = len(outcome.done), len(outcome.skipped)
    if done:
        text = ngettext("%(count)d run was put back in the queue.", "%(count)d runs were put back in the queue.", done)
        model_admin.message_user(request, text % {"count": done}, messages.SUCCESS)
    if skipped:
        text = ngettext("%(count)d run was skipped: %(reasons)s.", "%(count)d runs were skipped: %(reasons)s.", skipped)
        facts = {"count": skipped, "reasons": _reasons(outcome.skipped)}
        model_admin.message_user(request, text % facts, messages.WARNING)
    if outcome.is_cut:
        text = gettext("Only the first %(count)d were looked at; run the action again for the others.")
        model_admin.message_user(request, text % {"count": MOST_AT_ONCE}, messages.WARNING)


def _reasons(skipped: list[tuple[str, str]]) -> str:
    shown = "; ".join(f"“{run_id}”: {reason}" for run_id, reason in skipped[:MOST_REASONS])
    more = len(skipped) - MOST_REASONS
    return shown if more <= 0 else gettext("%(reasons)s; and %(count)d more") % {"reasons": shown, "count": more}
