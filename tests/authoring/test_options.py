from datetime import timedelta

import pytest

from durable.authoring.options import StepOptions, WorkflowOptions, change_options
from durable.core.errors import ConfigurationError
from durable.core.retry import RetryPolicy


def test_the_defaults_are_the_documented_ones():
    policy = StepOptions().retry_policy

    assert policy.retries == 3
    assert policy.backoff.kind == "exponential"
    assert policy.backoff.base == timedelta(milliseconds=500)
    assert policy.backoff.maximum == timedelta(seconds=30)
    assert policy.backoff.jitter
    assert WorkflowOptions().version == "1"


def test_durations_are_parsed_and_lists_are_frozen():
    changed = change_options(
        StepOptions(), {"timeout": "5m", "backoff_max": 60, "requires": ["saga"], "retries": 0}, where="@step a"
    )

    assert changed.timeout == timedelta(minutes=5)
    assert changed.requires == ("saga",)
    assert changed.retry_policy == RetryPolicy(retries=0, backoff=changed.retry_policy.backoff)
    assert changed.backoff_max == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "name", "value", "accepts"),
    [
        (StepOptions(), "retries", -1, "a whole number from 0"),
        (StepOptions(), "retries", True, "a whole number from 0"),
        (StepOptions(), "retries", 1.5, "a whole number from 0"),
        (StepOptions(), "backoff", "quadratic", "'fixed', 'linear' or 'exponential'"),
        (StepOptions(), "backoff", [], "'fixed', 'linear' or 'exponential'"),
        (StepOptions(), "backoff_base", "soon", "'30s'"),
        (StepOptions(), "backoff_base", None, "'30s'"),
        (StepOptions(), "timeout", -1, "or None"),
        (StepOptions(), "jitter", 1, "True or False"),
        (StepOptions(), "queue", "", "text of 1 to 255"),
        (StepOptions(), "queue", "a\x00", "text of 1 to 255"),
        (StepOptions(), "priority", 2**21, "a whole number from -1048575"),
        (StepOptions(), "requires", "saga", "a list of texts"),
        (StepOptions(), "requires", 7, "a list of texts"),
        (StepOptions(), "compensate", "undo", "a function or a step"),
        (WorkflowOptions(), "version", 1, "text of 1 to 255"),
        (WorkflowOptions(), "version", None, "text of 1 to 255"),
        (WorkflowOptions(), "tags", "vip", "a list of texts"),
        (WorkflowOptions(), "priority", None, "a whole number"),
    ],
)
def test_a_wrong_value_says_what_is_accepted(options, name, value, accepts):
    with pytest.raises(ConfigurationError) as caught:
        change_options(options, {name: value}, where="@step a")

    assert f"@step a: option {name}=" in str(caught.value)
    assert accepts in str(caught.value)


@pytest.mark.parametrize(("name", "hint"), [("retrys", "Did you mean 'retries'?"), ("zzz", "Known options: backoff,")])
def test_an_unknown_option_names_the_nearest_one(name, hint):
    with pytest.raises(ConfigurationError, match="unknown option") as caught:
        change_options(StepOptions(), {name: 1}, where="@step a")

    assert hint in str(caught.value)


def test_options_of_steps_are_unknown_to_workflows():
    with pytest.raises(ConfigurationError, match="unknown option 'retries'"):
        change_options(WorkflowOptions(), {"retries": 1}, where="@workflow a")
