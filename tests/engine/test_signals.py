"""Signals: kept, waited for, timed out."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from durable import Context, api, step, workflow
from durable.core.errors import PayloadError, WaitTimeout
from durable.models import BufferedSignal, SignalWaiter
from tests.rig.patience import wait_until

pytestmark = pytest.mark.usefixtures("worker")


@workflow(name="signals.waiting")
def waiting(ctx: Context, tokens: list[str], times: int) -> list[Any]:
    return [list(ctx.wait_for_signal(*tokens)) for _ in range(times)]


def await_suspension(run: Any) -> None:
    wait_until(lambda: run.status == "suspended", what="the run to suspend")


def test_a_signal_before_the_wait_is_kept(token):
    api.signal(token, {"early": True})

    assert waiting.start([token], 1).result("10s") == [[token, {"early": True}]]


def test_a_signal_after_the_wait_wakes_the_run(token):
    run = waiting.start([token], 1)
    await_suspension(run)

    assert api.list_runs(workflow="signals.waiting", limit=1)[0].waiting_on == f"signal {token}"

    api.signal(token, 7)

    assert run.result("10s") == [[token, 7]]


def test_signals_of_a_token_come_in_the_order_in_which_they_were_sent(token):
    run = waiting.start([token], 5)
    for number in range(5):
        api.signal(token, number)

    assert run.result("10s") == [[token, number] for number in range(5)]


def test_each_signal_is_consumed_by_one_run(token):
    runs = [waiting.start([token], 1) for _ in range(4)]
    for run in runs:
        await_suspension(run)
    for number in range(4):
        api.signal(token, number)

    assert sorted(run.result("10s")[0][1] for run in runs) == [0, 1, 2, 3]


def test_the_first_of_several_tokens_ends_the_wait(token):
    tokens = [f"{token}:yes", f"{token}:no"]
    run = waiting.start(tokens, 2)
    await_suspension(run)
    run.signal(tokens[1], "b")
    run.signal(tokens[0], "a")

    assert run.result("10s") == [[tokens[1], "b"], [tokens[0], "a"]]
    assert not SignalWaiter.objects.filter(run__run_id=run.id).exists()


def test_tokens_of_any_script(token):
    strange = f"жды/{token} 'x' \"y\" %s {{}} 🎉"
    run = waiting.start([strange], 1)
    api.signal(strange, "ok")

    assert run.result("10s") == [[strange, "ok"]]


@workflow(name="signals.impatient")
def impatient(ctx: Context, token: str, timeout: str) -> str:
    try:
        ctx.wait_for_signal(token, timeout=timeout)
    except WaitTimeout as timed_out:
        ctx.sleep("1ms")
        return f"{isinstance(timed_out, TimeoutError)} {timed_out.tokens[0] == token} {timed_out.seq}"
    return "signalled"


def test_a_wait_ends_with_its_time_limit(token):
    run = impatient.start(token, "20ms")

    assert run.result("10s") == "True True 0"
    assert not SignalWaiter.objects.filter(run__run_id=run.id).exists()


def test_a_wait_that_timed_out_takes_no_later_signal(token):
    run = impatient.start(token, "20ms")
    run.result("10s")
    api.signal(token, 1)

    assert BufferedSignal.objects.get(token=token).consumed_run is None


def test_a_signal_in_time_ends_a_wait_with_a_time_limit(token):
    run = impatient.start(token, "1h")
    await_suspension(run)
    api.signal(token)

    assert run.result("10s") == "signalled"


def test_a_limit_of_nothing_only_looks(token):
    api.signal(token)

    assert impatient.start(token, "0s").result("10s") == "signalled"
    assert impatient.start(token, "0s").result("10s") == "True True 0"


@dataclass
class Decision:
    amount: Decimal
    by: str = "nobody"


@workflow(name="signals.typed")
def typed(ctx: Context, token: str) -> list[str]:
    _, decision = ctx.wait_for_signal(token, type=Decision)
    ctx.sleep("1ms")
    return [type(decision).__name__, repr(decision.amount), decision.by]


def test_a_payload_comes_as_its_type(token):
    run = typed.start(token)
    api.signal(token, Decision(Decimal("1.10")))

    assert run.result("10s") == ["Decision", "Decimal('1.10')", "nobody"]


@workflow(name="signals.mistyped")
def mistyped(ctx: Context, token: str) -> Any:
    try:
        ctx.wait_for_signal(token, type=int)
    except PayloadError as problem:
        ctx.sleep("1ms")
        return [problem.path, ctx.wait_for_signal(token, type=int)[1]]
    return None


def test_a_payload_that_does_not_fit_its_type_is_an_error_of_the_body(token):
    run = mistyped.start(token)
    api.signal(token, "seven")
    api.signal(token, 7)

    path, value = run.result("10s")
    assert path.startswith("$")
    assert value == 7


@step(name="signals.noop")
def noop() -> None:
    return None


@workflow(name="signals.mixed")
def mixed(ctx: Context, token: str) -> int:
    total = 0
    for _ in range(5):
        ctx.step(noop)
        total += ctx.wait_for_signal(token, type=int)[1]
    return total


def test_signals_while_a_run_is_executed_are_not_lost(token):
    run = mixed.start(token)
    for number in range(5):
        api.signal(token, number)

    assert run.result("10s") == 10
