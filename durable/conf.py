"""``settings.DURABLE`` as one frozen, typed object.

It is read on first use and dropped when a test changes the setting. Every key has a default; an unknown key or a wrong
value is a problem that names what is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, Literal

from django.conf import settings
from django.core.signals import setting_changed

from durable.core.durations import parse_duration
from durable.core.errors import ConfigurationError, DurableError, nearest
from durable.core.ids import check_name

BUILT_IN_TRANSPORTS: Final = ("db", "local", "memory")

SECRET_NAMES: Final = ("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential")
"""Keys that contain one of these, in any case, are masked unless ``REDACT`` says otherwise."""


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Say how long ended runs are kept; None keeps them for ever."""

    completed: timedelta | None = timedelta(days=30)
    others: timedelta | None = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Describe a mistake in the setting: what is wrong, and what to do."""

    msg: str
    hint: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Hold every setting.

    Attributes:
        database: Alias of the store.
        transport: Name of the transport in use.
        transports: Options of named transports.
        namespace: The pool that this instance drives; None drives all.
        partition: Suffix of the routing tokens served here.
        drive: False: this instance starts and reads runs but executes none.
        consumers: ``never``: only after ``start_consumers()``; ``always``: in every process that uses the engine.
        concurrency: Bodies, with their local steps, at once in one worker.
        step_concurrency: Dispatched steps at once in one worker.
        lease: How long a lease lasts unless it is renewed.
        reconcile: After this a suspended run without a timer of its own looks again.
        remote_redispatch: After this a step whose result never came is dispatched again; None never.
        remote_redispatch_max: How often that is done.
        heartbeat_persist_throttle: At most one stored beat per step and instance in this time.
        remote_advance_silence: After this silence a remote turn is driven again; None never.
        timer_batch_size: Due runs loaded per timer pass.
        blocked_poll: How often blocked runs look at the fleet.
        max_recovery_attempts: Recoveries that are tried before a run becomes dead; None sets no limit.
        compensation_retries: Further attempts of a compensation.
        payload_max_bytes: Upper bound of each input, output and signal.
        payload_codec: Dotted path of the codec for payloads at rest.
        retention: How long ended runs are kept.
        redact: Keys that contain one of these are masked in the admin, in errors and in logs.
        poll: How often queues are polled: under load, and after a quiet spell.
        timer_poll: How often timers, stamped runs and ended leases are looked for.
        pending_poll: How often pending runs that no hint announced are looked for.
        drain_timeout: How long a stopping worker waits for what it runs.
        prefix: Prefix of queues, channels and keys.
        capabilities: Of this worker, on top of the baseline.
        control_plane_protocol: Lowest and highest protocol major that is accepted.
        control_plane: Channel of lifecycle events and cancels: ``db``, a transport's name, or None.
        limits: Flow-control limits by name.
        schedules: Schedules by key.
        limits_backend: Where limits are counted.
        webhook_url: Absolute base of webhook addresses.
    """

    database: str = "default"
    transport: str = "db"
    transports: Mapping[str, Mapping[str, Any]] = field(default_factory=_empty)
    namespace: str | None = None
    partition: str | None = None
    drive: bool = True
    consumers: Literal["never", "always"] = "never"
    concurrency: int = 10
    step_concurrency: int = 10
    lease: timedelta = timedelta(seconds=30)
    reconcile: timedelta = timedelta(minutes=5)
    remote_redispatch: timedelta | None = None
    remote_redispatch_max: int = 10
    heartbeat_persist_throttle: timedelta = timedelta(seconds=10)
    remote_advance_silence: timedelta | None = None
    timer_batch_size: int = 500
    blocked_poll: timedelta = timedelta(seconds=5)
    max_recovery_attempts: int | None = 10
    compensation_retries: int = 1
    payload_max_bytes: int = 4 * 1024 * 1024
    payload_codec: str | None = None
    retention: Retention = Retention()
    redact: tuple[str, ...] = SECRET_NAMES
    poll: tuple[timedelta, timedelta] = (timedelta(milliseconds=20), timedelta(seconds=1))
    timer_poll: timedelta = timedelta(seconds=1)
    pending_poll: timedelta = timedelta(seconds=5)
    drain_timeout: timedelta = timedelta(seconds=30)
    prefix: str = "durable"
    capabilities: tuple[str, ...] = ()
    control_plane_protocol: tuple[int, int] = (1, 1)
    control_plane: str | None = "db"
    limits: Mapping[str, Any] = field(default_factory=_empty)
    schedules: Mapping[str, Any] = field(default_factory=_empty)
    limits_backend: Literal["db", "redis"] = "db"
    webhook_url: str | None = None

    @staticmethod
    def problems(raw: object) -> list[Problem]:
        """Return every mistake in a setting, as the user wrote it."""
        return _read_all(raw)[1]

    @classmethod
    def from_raw(cls, raw: object) -> Config:
        """Read a setting, as the user wrote it.

        Raises:
            ConfigurationError: Something in it is wrong; names the key.
        """
        values, problems = _read_all(raw)
        if problems:
            raise ConfigurationError(" ".join(f"{each.msg} {each.hint}" for each in problems))
        return cls(**values)


class _Unacceptable(Exception):
    """The value is of the wrong kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    accepts: str
    read: Callable[[Any], Any] = field(repr=False)


def _count_from(least: int) -> _Rule:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _Unacceptable
        return value

    return _Rule(accepts=f"a whole number from {least}", read=read)


def _one_of(*accepted: str) -> _Rule:
    def read(value: Any) -> Any:
        if value not in accepted:
            raise _Unacceptable
        return value

    return _Rule(accepts=" or ".join(repr(each) for each in accepted), read=read)


def _or_off(rule: _Rule) -> _Rule:
    return _Rule(
        accepts=f"{rule.accepts}, or None for off", read=lambda value: None if value is None else rule.read(value)
    )


def _read_positive_duration(value: Any) -> timedelta:
    duration = parse_duration(value)
    if not duration:
        raise _Unacceptable
    return duration


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unacceptable
    return value


def _read_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _Unacceptable
    return tuple(check_name("name", each) for each in value)


def _read_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _Unacceptable
    return MappingProxyType(dict(value))


def _read_transports(value: Any) -> Mapping[str, Mapping[str, Any]]:
    return MappingProxyType({name: _read_mapping(options) for name, options in _read_mapping(value).items()})


def _read_retention(value: Any) -> Retention:
    given = _read_mapping(value)
    if not given.keys() <= {"completed", "others"}:
        raise _Unacceptable
    return Retention(**{key: None if each is None else _read_positive_duration(each) for key, each in given.items()})


def _read_pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, str) or not isinstance(value, tuple | list) or len(value) != 2:
        raise _Unacceptable
    return value[0], value[1]


def _read_poll(value: Any) -> tuple[timedelta, timedelta]:
    fast, slow = (_read_positive_duration(each) for each in _read_pair(value))
    if fast > slow:
        raise _Unacceptable
    return fast, slow


def _read_protocol(value: Any) -> tuple[int, int]:
    lowest, highest = (_count_from(1).read(each) for each in _read_pair(value))
    if lowest > highest:
        raise _Unacceptable
    return lowest, highest


def _read_url(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise _Unacceptable
    return value


_NAME = _Rule(
    accepts="text of 1 to 255 characters without control characters", read=lambda value: check_name("name", value)
)
_NAMES = _Rule(accepts="a list of texts", read=_read_names)
_FLAG = _Rule(accepts="True or False", read=_read_flag)
_MAPPING = _Rule(accepts="a dict with text keys", read=_read_mapping)
_DURATION = _Rule(
    accepts="a timedelta, a number of seconds, or text such as '30s', above zero", read=_read_positive_duration
)
_LENGTH = _Rule(accepts="a timedelta, a number of seconds, or text such as '30s'", read=parse_duration)

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "DATABASE": _NAME,
        "TRANSPORT": _NAME,
        "TRANSPORTS": _Rule(accepts="a dict of names to dicts of options", read=_read_transports),
        "NAMESPACE": _or_off(_NAME),
        "PARTITION": _or_off(_NAME),
        "DRIVE": _FLAG,
        "CONSUMERS": _one_of("never", "always"),
        "CONCURRENCY": _count_from(1),
        "STEP_CONCURRENCY": _count_from(1),
        "LEASE": _DURATION,
        "RECONCILE": _DURATION,
        "REMOTE_REDISPATCH": _or_off(_DURATION),
        "REMOTE_REDISPATCH_MAX": _count_from(0),
        "HEARTBEAT_PERSIST_THROTTLE": _LENGTH,
        "REMOTE_ADVANCE_SILENCE": _or_off(_DURATION),
        "TIMER_BATCH_SIZE": _count_from(1),
        "BLOCKED_POLL": _DURATION,
        "MAX_RECOVERY_ATTEMPTS": _or_off(_count_from(0)),
        "COMPENSATION_RETRIES": _count_from(0),
        "PAYLOAD_MAX_BYTES": _count_from(1),
        "PAYLOAD_CODEC": _or_off(_Rule(accepts="a dotted path", read=_NAME.read)),
        "RETENTION": _Rule(
            accepts="a dict with the keys 'completed' and 'others', each a duration, or None to keep for ever",
            read=_read_retention,
        ),
        "REDACT": _NAMES,
        "POLL": _Rule(accepts="a pair of durations, the shorter one first", read=_read_poll),
        "TIMER_POLL": _DURATION,
        "PENDING_POLL": _DURATION,
        "DRAIN_TIMEOUT": _LENGTH,
        "PREFIX": _NAME,
        "CAPABILITIES": _NAMES,
        "CONTROL_PLANE_PROTOCOL": _Rule(accepts="a pair of whole numbers, the lower one first", read=_read_protocol),
        "CONTROL_PLANE": _or_off(_NAME),
        "LIMITS": _MAPPING,
        "SCHEDULES": _MAPPING,
        "LIMITS_BACKEND": _one_of("db", "redis"),
        "WEBHOOK_URL": _or_off(_Rule(accepts="an absolute http or https address", read=_read_url)),
    }
)

KEYS: Final = tuple(_RULES)
"""Every key of ``settings.DURABLE``."""


def _read_all(raw: object) -> tuple[dict[str, Any], list[Problem]]:
    if not isinstance(raw, Mapping):
        problem = Problem(
            msg=f"DURABLE is a {type(raw).__name__}.", hint="Make it a dict; all keys are optional.", key="DURABLE"
        )
        return {}, [problem]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in raw.items():
        rule = _RULES.get(key)
        if rule is None:
            problems.append(_unknown_key(str(key)))
            continue
        try:
            values[key.lower()] = rule.read(value)
        except (_Unacceptable, DurableError):
            problems.append(Problem(msg=f"DURABLE[{key!r}] is {_shown(value)}.", hint=f"Give {rule.accepts}.", key=key))
    problems += _contradictions(values)
    return values, problems


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _unknown_key(key: str) -> Problem:
    close = nearest(key.upper(), KEYS)
    hint = f"Did you mean {close!r}?" if close else f"Known keys: {', '.join(KEYS)}."
    return Problem(msg=f"DURABLE[{key!r}] is unknown.", hint=hint, key=key)


def _contradictions(values: Mapping[str, Any]) -> list[Problem]:
    known = {*BUILT_IN_TRANSPORTS, *values.get("transports", ())}
    found: list[Problem] = []
    for key in ("TRANSPORT", "CONTROL_PLANE"):
        name = values.get(key.lower())
        if name is not None and name not in known:
            hint = f"Give one of {', '.join(sorted(known))}, or describe it in DURABLE['TRANSPORTS']."
            found.append(Problem(msg=f"DURABLE[{key!r}] names no transport: {name!r}.", hint=hint, key=key))
    return found


_cached: list[Config] = []


def get_config() -> Config:
    """Return the settings.

    Raises:
        ConfigurationError: Something in ``settings.DURABLE`` is wrong; names the key.
    """
    if not _cached:
        _cached[:] = [Config.from_raw(getattr(settings, "DURABLE", {}))]
    return _cached[0]


def _forget(*, setting: str, **_: object) -> None:
    if setting == "DURABLE":
        _cached.clear()


setting_changed.connect(_forget, dispatch_uid="durable.conf")
