"""Transports inside one process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import transaction

from durable import Context, StepFailed, api, current_step, step, workflow
from durable.core.errors import ConfigurationError, RunFailed
from durable.engine.instance import close_engines, get_engine
from durable.models import TransportMessage
from durable.transports.registry import make_transport

CALLS: Counter[tuple[str, str]] = Counter()


@step(name="transports.double", retries=2, backoff="fixed", backoff_base="1ms", jitter=False)
def double(number: int) -> int:
    CALLS["double", current_step().run_id] += 1
    if number < 0 and current_step().attempt < 3:
        raise ValueError("negative")
    return 2 * number


@step(name="transports.timed", timeout="5s")
def timed(number: int) -> int:
    return 2 * number


@workflow(name="transports.all_kinds")
def all_kinds(ctx: Context, numbers: list[int]) -> list[int]:
    first = ctx.gather(*(double.call(number) for number in numbers))
    second = ctx.step(timed, 5)
    third = ctx.local_step("double", double, 6)
    fourth = list(ctx.map(double, numbers, window=2))
    return [*first, second, third, *fourth]


@workflow(name="transports.waiting")
def waiting(ctx: Context, token: str) -> Any:
    return ctx.wait_for_signal(token)[1]


@workflow(name="transports.failing")
def failing(ctx: Context) -> None:
    raise ValueError("no")


@pytest.fixture
def memory(settings):
    settings.DURABLE = {"TRANSPORT": "memory"}
    yield
    close_engines()


@pytest.fixture
def local(settings):
    settings.DURABLE = {"TRANSPORT": "local"}
    yield
    close_engines()


@pytest.mark.usefixtures("memory")
def test_memory_executes_a_run_before_start_returns():
    run = all_kinds.start([1, 2, 3])

    assert run.status == "completed"
    assert run.result(0) == [2, 4, 6, 10, 12, 2, 4, 6]
    assert CALLS["double", run.id] == 7
    assert not TransportMessage.objects.filter(kind="task", queue__contains="transports").exists()


@pytest.mark.usefixtures("memory")
def test_memory_executes_a_run_of_a_transaction_after_its_commit():
    with transaction.atomic():
        run = all_kinds.start([1])

        assert run.status == "pending"

    assert run.status == "completed"


@pytest.mark.usefixtures("memory")
def test_memory_goes_on_with_a_run_when_its_signal_comes(token):
    run = waiting.start(token)

    assert run.status == "suspended"

    run.signal(token, 5)

    assert run.status == "completed"
    assert run.result(0) == 5


@pytest.mark.usefixtures("memory")
def test_memory_shows_failures():
    run = failing.start()

    assert run.status == "failed"
    with pytest.raises(RunFailed, match="no"):
        run.result(0)


@pytest.mark.usefixtures("local")
def test_local_executes_runs_in_threads_of_this_process(token):
    runs = [all_kinds.start([number]) for number in range(4)]
    second = waiting.start(token)
    second.signal(token, 1)

    assert [run.result("10s")[0] for run in runs] == [0, 2, 4, 6]
    assert second.result("10s") == 1


@workflow(name="transports.retrying")
def retrying(ctx: Context) -> int:
    try:
        return ctx.step(double, -1)
    except StepFailed:
        return 0


@pytest.mark.usefixtures("local")
def test_local_tries_steps_again():
    run = retrying.start()

    assert run.result("10s") == -2
    assert api.checkpoints(run.id)[0].attempts == 3


def test_an_unknown_transport_is_named():
    with pytest.raises(ConfigurationError, match=r"'smoke'.*db, local, memory"):
        make_transport("smoke")


def test_the_database_is_the_transport_when_nothing_is_said():
    assert get_engine().transport.name == "db"
