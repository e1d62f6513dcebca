from dataclasses import FrozenInstanceError, fields
from datetime import timedelta

import pytest
from django.test import override_settings

from durable.conf import KEYS, SECRET_NAMES, Config, Retention, get_config
from durable.core.errors import ConfigurationError

SECONDS = timedelta(seconds=1)

DEFAULTS: dict[str, object] = {
    "database": "default",
    "transport": "db",
    "transports": {},
    "namespace": None,
    "partition": None,
    "drive": True,
    "consumers": "never",
    "concurrency": 10,
    "step_concurrency": 10,
    "lease": 30 * SECONDS,
    "reconcile": 300 * SECONDS,
    "remote_redispatch": None,
    "remote_redispatch_max": 10,
    "heartbeat_persist_throttle": 10 * SECONDS,
    "remote_advance_silence": None,
    "timer_batch_size": 500,
    "blocked_poll": 5 * SECONDS,
    "max_recovery_attempts": 10,
    "compensation_retries": 1,
    "payload_max_bytes": 4_194_304,
    "payload_codec": None,
    "retention": Retention(completed=timedelta(days=30), others=timedelta(days=90)),
    "redact": SECRET_NAMES,
    "poll": (timedelta(milliseconds=20), SECONDS),
    "timer_poll": SECONDS,
    "pending_poll": 5 * SECONDS,
    "drain_timeout": 30 * SECONDS,
    "prefix": "durable",
    "capabilities": (),
    "control_plane_protocol": (1, 1),
    "control_plane": "db",
    "limits": {},
    "schedules": {},
    "limits_backend": "db",
    "webhook_url": None,
}


def test_every_default_is_the_documented_one():
    config = Config.from_raw({})

    assert {field.name: getattr(config, field.name) for field in fields(config)} == DEFAULTS


def test_every_field_has_a_key():
    assert [key.lower() for key in KEYS] == [field.name for field in fields(Config)]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("LEASE", "1m", timedelta(minutes=1)),
        ("LEASE", 5, 5 * SECONDS),
        ("REMOTE_REDISPATCH", None, None),
        ("REMOTE_REDISPATCH", "2h", timedelta(hours=2)),
        ("DRAIN_TIMEOUT", 0, timedelta(0)),
        ("MAX_RECOVERY_ATTEMPTS", None, None),
        ("MAX_RECOVERY_ATTEMPTS", 0, 0),
        ("POLL", ["10ms", "2s"], (timedelta(milliseconds=10), 2 * SECONDS)),
        ("RETENTION", {"completed": None}, Retention(completed=None)),
        ("RETENTION", {"others": "1d"}, Retention(others=timedelta(days=1))),
        ("CONTROL_PLANE_PROTOCOL", [1, 2], (1, 2)),
        ("CAPABILITIES", ["saga"], ("saga",)),
        ("CONTROL_PLANE", None, None),
        ("WEBHOOK_URL", "https://example.com/hooks", "https://example.com/hooks"),
        ("TRANSPORTS", {"redis": {"connection": "default"}}, {"redis": {"connection": "default"}}),
    ],
)
def test_a_value_is_read_into_its_type(key, value, expected):
    assert Config.problems({key: value}) == []
    assert getattr(Config.from_raw({key: value}), key.lower()) == expected


@pytest.mark.parametrize(
    ("key", "value", "accepts"),
    [
        ("DATABASE", None, "text of 1 to 255"),
        ("DRIVE", 1, "True or False"),
        ("CONSUMERS", "sometimes", "'never' or 'always'"),
        ("CONSUMERS", [], "'never' or 'always'"),
        ("CONCURRENCY", 0, "a whole number from 1"),
        ("CONCURRENCY", True, "a whole number from 1"),
        ("CONCURRENCY", "10", "a whole number from 1"),
        ("LEASE", 0, "above zero"),
        ("LEASE", "soon", "'30s'"),
        ("LEASE", None, "'30s'"),
        ("REMOTE_REDISPATCH", False, "None for off"),
        ("MAX_RECOVERY_ATTEMPTS", -1, "a whole number from 0, or None for off"),
        ("RETENTION", "30d", "'completed' and 'others'"),
        ("RETENTION", {"failed": "1d"}, "'completed' and 'others'"),
        ("POLL", "20ms", "a pair of durations"),
        ("POLL", (1, 0.5), "the shorter one first"),
        ("CONTROL_PLANE_PROTOCOL", (2, 1), "the lower one first"),
        ("CONTROL_PLANE_PROTOCOL", 1, "a pair of whole numbers"),
        ("CAPABILITIES", "saga", "a list of texts"),
        ("TRANSPORTS", {"redis": 1}, "a dict of names to dicts"),
        ("LIMITS", [], "a dict with text keys"),
        ("LIMITS", {1: 2}, "a dict with text keys"),
        ("WEBHOOK_URL", "example.com", "an absolute http or https address"),
        ("LIMITS_BACKEND", "memory", "'db' or 'redis'"),
    ],
)
def test_a_wrong_value_is_a_problem_that_says_what_is_accepted(key, value, accepts):
    (problem,) = Config.problems({key: value})

    assert problem.key == key
    assert f"DURABLE[{key!r}] is" in problem.msg
    assert accepts in problem.hint


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("LEESE", "Did you mean 'LEASE'?"),
        ("lease", "Did you mean 'LEASE'?"),
        ("XYZ", "Known keys: DATABASE,"),
        (7, "Known"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(key, hint):
    (problem,) = Config.problems({key: 1})

    assert "is unknown" in problem.msg
    assert hint in problem.hint


@pytest.mark.parametrize("key", ["TRANSPORT", "CONTROL_PLANE"])
def test_a_transport_must_be_known_or_described(key):
    (problem,) = Config.problems({key: "redis"})

    assert "names no transport: 'redis'" in problem.msg
    assert Config.problems({key: "redis", "TRANSPORTS": {"redis": {}}}) == []


def test_every_problem_is_reported_at_once():
    assert [each.key for each in Config.problems({"LEASE": "x", "POLL": 1, "NOPE": 1})] == ["LEASE", "POLL", "NOPE"]


@pytest.mark.parametrize("raw", [None, [], "db"])
def test_a_setting_that_is_no_dict_is_a_problem(raw):
    (problem,) = Config.problems(raw)

    assert problem.key == "DURABLE"


def test_a_wrong_setting_is_refused_on_use():
    with override_settings(DURABLE={"LEASE": "soon"}), pytest.raises(ConfigurationError, match=r"DURABLE\['LEASE'\]"):
        get_config()


def test_it_is_read_once_and_again_after_a_change():
    with override_settings(DURABLE={"CONCURRENCY": 3}):
        first = get_config()
        assert get_config() is first
    with override_settings(DURABLE={"CONCURRENCY": 4}):
        second = get_config()

    assert (first.concurrency, second.concurrency) == (3, 4)


def test_another_setting_changes_nothing():
    before = get_config()
    with override_settings(LANGUAGE_CODE="de"):
        assert get_config() is before


def test_it_cannot_be_changed_in_place():
    config = Config.from_raw({"TRANSPORTS": {"redis": {}}})

    with pytest.raises(FrozenInstanceError):
        config.concurrency = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.transports["x"] = {}  # type: ignore[index]
