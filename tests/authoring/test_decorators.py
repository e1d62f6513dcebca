import asyncio
import inspect
from typing import Any

import pytest

from durable.authoring import driver
from durable.authoring.context import Context
from durable.authoring.decorators import step, workflow
from durable.authoring.naming import set_app_label_resolver, top_package
from durable.authoring.refs import AsyncStep, AsyncWorkflow, FunctionRef, Step, SyncWorkflow, ref
from durable.core.errors import ConfigurationError, InvalidRunId


def test_a_bare_step_stays_an_ordinary_function(registry):
    @step
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert isinstance(add, Step)
    assert add(1) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert registry.step("tests.add") is add


def test_an_async_step_gives_its_coroutine(registry):
    @step(name="shop.fetch", retries=0)
    async def fetch(url: str) -> str:
        return url

    assert isinstance(fetch, AsyncStep)
    assert asyncio.run(fetch("u")) == "u"
    assert registry.step("shop.fetch").config.retries == 0


def test_a_workflow_is_called_with_any_context(registry):
    @workflow(name="shop.checkout", version="2", tags=["a"])
    def checkout(ctx: Context, order_id: int) -> tuple[Any, int]:
        return ctx, order_id

    context: Any = object()

    assert isinstance(checkout, SyncWorkflow)
    assert checkout(context, 7) == (context, 7)
    assert checkout.config.tags == ("a",)
    assert registry.workflow("shop.checkout", "2") is checkout


def test_an_async_workflow_gives_its_coroutine():
    @workflow
    async def checkout(ctx: Context, order_id: int) -> int:
        return order_id

    context: Any = object()

    assert isinstance(checkout, AsyncWorkflow)
    assert asyncio.run(checkout(context, order_id=7)) == 7


def test_one_decorator_may_declare_several_steps(registry):
    careful = step(retries=9)

    @careful
    def first() -> None: ...

    @careful
    def second() -> None: ...

    assert [registry.step(name).config.retries for name in registry.step_names()] == [9, 9]


def test_options_give_a_copy_and_leave_the_original():
    @step(queue="a")
    def charge(order_id: int) -> None: ...

    other = charge.options(queue="b", priority=3)

    assert (charge.config.queue, other.config.queue, other.config.priority) == ("a", "b", 3)
    assert other.name == charge.name
    assert other.function is charge.function


def test_a_reference_to_a_function_carries_options_and_a_step_s_own():
    def undo() -> None: ...

    @step(retries=7)
    def charge(order_id: int) -> int:
        return order_id

    plain = ref(undo, retries=1)
    of_step = ref(charge, compensate=undo)

    assert isinstance(plain, FunctionRef)
    assert plain.config.retries == 1
    assert (of_step.config.retries, of_step.config.compensate) == (7, undo)
    assert of_step(3) == 3


def test_a_call_is_kept_and_not_made():
    @step
    def charge(order_id: int, note: str = "") -> None:
        raise AssertionError

    call = charge.call(7, note="x")

    assert (call.ref, call.args, call.kwargs) == (charge, (7,), {"note": "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrys": 1}, "@step charge: unknown option 'retrys'. Did you mean 'retries'"),
        ({"retries": "x"}, "retries='x'"),
    ],
)
def test_a_wrong_option_is_found_at_the_decoration(options, message):
    with pytest.raises(ConfigurationError, match=message):

        @step(**options)
        def charge() -> None: ...


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize("thing", ["charge", int, _generator])
def test_only_functions_can_be_declared(thing):
    for decorator in (step, workflow):
        with pytest.raises(ConfigurationError):
            decorator(thing)


def test_a_declaration_is_not_declared_again():
    @step
    def charge() -> None: ...

    with pytest.raises(ConfigurationError, match="apply it once"):
        step(charge)


def test_a_workflow_needs_a_context():
    def checkout() -> None: ...

    undecided: Any = checkout
    with pytest.raises(ConfigurationError, match="first parameter"):
        workflow(undecided)


def test_the_default_name_asks_for_the_app_label_when_it_is_needed(registry):
    @step
    def charge() -> None: ...

    set_app_label_resolver(lambda module: f"label of {module}")
    try:
        assert charge.name == f"label of {__name__}.charge"
        assert registry.step_names() == (charge.name,)
    finally:
        set_app_label_resolver(top_package)


class RecordingDriver:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start(self, workflow: Any, args: Any, kwargs: Any, *, run_id: str | None, using: str | None) -> Any:
        self.calls.append((workflow.config.priority, args, dict(kwargs), run_id, using))
        return "handle"

    async def astart(self, workflow: Any, args: Any, kwargs: Any, *, run_id: str | None, using: str | None) -> Any:
        return self.start(workflow, args, kwargs, run_id=run_id, using=using)


@pytest.fixture
def recording(monkeypatch):
    recording = RecordingDriver()
    monkeypatch.setattr(driver, "_installed", [recording])
    return recording


def test_every_way_to_start_reaches_the_driver(recording):
    @workflow
    def checkout(ctx: Context, run_id: str, *, fast: bool = False) -> None: ...

    handles: list[Any] = [
        checkout.start("mine", fast=True),
        checkout.start_as("id-1", run_id="mine"),
        asyncio.run(checkout.astart("mine")),
        asyncio.run(checkout.options(priority=5, using="other").astart_as("id-2", "mine")),
    ]

    assert handles == ["handle"] * 4
    assert recording.calls == [
        (0, ("mine",), {"fast": True}, None, None),
        (0, (), {"run_id": "mine"}, "id-1", None),
        (0, ("mine",), {}, None, None),
        (5, ("mine",), {}, "id-2", "other"),
    ]


def test_a_bad_run_id_is_refused_before_the_driver_is_asked(recording):
    @workflow
    def checkout(ctx: Context) -> None: ...

    with pytest.raises(InvalidRunId):
        checkout.start_as("")
    with pytest.raises(InvalidRunId):
        asyncio.run(checkout.astart_as("a\x00"))

    assert recording.calls == []


def test_starting_without_the_app_says_what_to_do(monkeypatch):
    monkeypatch.setattr(driver, "_installed", [])

    @workflow
    def checkout(ctx: Context) -> None: ...

    with pytest.raises(ConfigurationError, match="INSTALLED_APPS"):
        checkout.start()


def test_the_installed_driver_is_the_last_one(monkeypatch):
    monkeypatch.setattr(driver, "_installed", [])
    first, last = RecordingDriver(), RecordingDriver()
    driver.install_driver(first)
    driver.install_driver(last)

    assert driver.get_driver() is last
