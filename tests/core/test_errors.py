import copy
import inspect
from datetime import timedelta

import pytest

from durable.core import errors
from durable.core.failure import Failure

FAILURE = Failure(kind="ValueError", message="no stock")

EXAMPLES: list[tuple[errors.DurableError, dict[str, object], str]] = [
    (
        errors.PayloadError("step a", "$.x", "is NaN"),
        {"where": "step a", "path": "$.x", "problem": "is NaN"},
        "step a: at $.x: is NaN",
    ),
    (errors.PayloadTooLarge("step a", 5_000_000, 4_194_304), {"size_bytes": 5_000_000}, "5,000,000 bytes"),
    (errors.InvalidRunId("a\x00", "holds NUL"), {"run_id": "a\x00", "problem": "holds NUL"}, r"'a\x00' holds NUL"),
    (errors.InvalidName("queue", "", "is empty"), {"kind": "queue", "name": ""}, "The queue '' is empty"),
    (errors.InvalidDuration("5x", "no unit"), {"value": "5x"}, "'5x' is no duration: no unit"),
    (errors.RunNotFound("r1"), {"run_id": "r1"}, "'r1'"),
    (errors.RunIdConflict("r1", "a", "b"), {"existing_workflow": "a", "requested_workflow": "b"}, "belongs to"),
    (
        errors.WorkflowNotRegistered("shop.chekout", ["shop.checkout"]),
        {"name": "shop.chekout", "known": ("shop.checkout",)},
        "Did you mean 'shop.checkout'?",
    ),
    (errors.WorkflowNotRegistered("x"), {"known": ()}, "No workflow is registered"),
    (errors.VersionNotRegistered("a", "2", ["1"]), {"name": "a", "version": "2", "known": ("1",)}, "registered: '1'"),
    (errors.StepNotRegistered("zzz", ["a", "b"]), {"name": "zzz", "known": ("a", "b")}, "Known: 'a', 'b'"),
    (errors.WrongState("r1", "retry", "completed", "Fork it."), {"action": "retry"}, "Cannot retry run 'r1'"),
    (errors.OperationRefused("start()", "it is a body", "Use ctx.child."), {"instead": "Use ctx.child."}, "Use ctx"),
    (
        errors.NonDeterminismError("r1", 3, "charge", "remote", "refund", "local"),
        {"seq": 3, "recorded_name": "charge", "requested_kind": "local"},
        "at position 3: recorded is remote 'charge', the body asked for local 'refund'",
    ),
    (errors.RunFailed("r1", FAILURE), {"run_id": "r1", "failure": FAILURE}, "'r1' failed: ValueError: no stock"),
    (errors.RunCancelled("r1"), {"failure": None}, "was cancelled"),
    (errors.RunDead("r1", FAILURE), {"run_id": "r1"}, "is dead"),
    (errors.ResultTimeout("r1", timedelta(seconds=30)), {"timeout": timedelta(seconds=30)}, "within 30 s"),
    (errors.StepFailed("charge", "declined", "no", 4, 7), {"code": "declined", "attempts": 4, "seq": 7}, "4 attempts"),
    (errors.StepTimeout("charge", None, "silent", 1), {"code": "step_timeout", "seq": None}, "1 attempt:"),
    (errors.WaitTimeout(("a", "b"), 2), {"tokens": ("a", "b"), "seq": 2}, "'a', 'b'"),
    (errors.StepCancelled("r1:2"), {"step_id": "r1:2"}, "'r1:2'"),
    (errors.StoreUnavailable("refused"), {"detail": "refused"}, "refused"),
    (errors.TransportUnavailable("redis://h", "refused"), {"address": "redis://h"}, "redis://h"),
    (errors.MigrationsMissing(["a", "b"]), {"tables": ("a", "b")}, "manage.py migrate durable"),
    (errors.MalformedMessage("RemoteTask", "no seq"), {"reason": "no seq"}, "Malformed RemoteTask: no seq"),
    (errors.ConfigurationError("The setting is wrong."), {}, "The setting is wrong."),
]


@pytest.mark.parametrize(("error", "facts", "message"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_an_error_keeps_its_facts_and_composes_its_message(error, facts, message):
    assert {name: getattr(error, name) for name in facts} == facts
    assert message in str(error)


@pytest.mark.parametrize("error", [each[0] for each in EXAMPLES], ids=lambda each: type(each).__name__)
def test_an_error_survives_a_copy(error):
    other = copy.copy(error)

    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def _tree() -> list[type[errors.DurableError]]:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    return [each for each in classes if issubclass(each, errors.DurableError)]


def test_every_error_has_an_example_here():
    bases = {errors.DurableError, errors.RunNotCompleted}

    assert {type(error) for error, _, _ in EXAMPLES} == set(_tree()) - bases


def test_every_error_is_drawn_in_the_tree_and_has_a_code_of_its_own():
    codes = [each.code for each in _tree()]

    assert len(set(codes)) == len(codes)
    assert [each.__name__ for each in _tree() if each.__name__ not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize("kind", [errors.BodyDiscarded, errors.LeaseLost])
def test_control_flow_passes_through_except_exception(kind):
    assert issubclass(kind, BaseException)
    assert not issubclass(kind, Exception)


def test_a_fatal_error_stops_retries_and_carries_its_code():
    error = errors.FatalError("stolen", code="card_stolen")

    assert (error.message, error.code, error.retryable) == ("stolen", "card_stolen", False)
    assert errors.FatalError("x").code == "fatal"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(errors.PayloadError("a", "$", "b"), False), (errors.StoreUnavailable("x"), True)],
)
def test_mistakes_are_not_retried_and_outages_are(error, retryable):
    assert Failure.from_exception(error).retryable is retryable
