from typing import Any

import pytest

from durable.authoring.context import Context
from durable.authoring.decorators import step, workflow
from durable.authoring.registry import Registry, override_registry, version_order
from durable.authoring.registry import registry as default_registry
from durable.core.errors import (
    ConfigurationError,
    StepNotRegistered,
    VersionNotRegistered,
    WorkflowNotRegistered,
)


def declare_step(name: str) -> Any:
    @step(name=name)
    def charge() -> None: ...

    return charge


def declare_workflow(version: str) -> Any:
    @workflow(name="shop.checkout", version=version)
    def checkout(ctx: Context) -> None: ...

    return checkout


def test_the_same_function_declared_again_replaces_itself(registry):
    declare_step("shop.charge")
    again = declare_step("shop.charge")

    assert registry.step("shop.charge") is again


def test_another_function_of_the_same_name_is_refused(registry):
    declare_step("shop.charge")

    with pytest.raises(ConfigurationError, match=r"step 'shop\.charge' is declared twice: by .*declare_step.* and by"):

        @step(name="shop.charge")
        def other() -> None: ...


def test_a_clash_of_default_names_is_reported_by_the_check_and_on_use(registry):
    def first() -> Any:
        @step
        def charge() -> None: ...

    def second() -> Any:
        @step
        def charge() -> None: ...

    first()
    second()

    assert [where for where, _ in registry.problems()] == ["registry"]
    with pytest.raises(ConfigurationError, match="declared twice"):
        registry.step("tests.charge")


def test_versions_stand_side_by_side_and_the_newest_is_the_default(registry):
    versions = {version: declare_workflow(version) for version in ("9", "10", "2")}

    assert registry.workflow("shop.checkout") is versions["10"]
    assert registry.workflow("shop.checkout", "2") is versions["2"]
    assert registry.workflow_keys() == (("shop.checkout", "10"), ("shop.checkout", "2"), ("shop.checkout", "9"))


@pytest.mark.parametrize(
    "rising", [["1", "2", "10"], ["1.9", "1.10"], ["1.0", "1.0.1"], ["v1", "v2", "v10"], ["beta", "1"]]
)
def test_versions_are_ordered_as_people_read_them(rising):
    assert sorted(set(rising), key=version_order) == rising


def test_an_unknown_name_is_refused_with_the_nearest_known_one(registry):
    declare_step("shop.charge")
    declare_workflow("1")

    with pytest.raises(StepNotRegistered, match=r"Did you mean 'shop\.charge'"):
        registry.step("shop.chrge")
    with pytest.raises(WorkflowNotRegistered, match=r"Did you mean 'shop\.checkout'"):
        registry.workflow("shop.chekout")
    with pytest.raises(VersionNotRegistered) as caught:
        registry.workflow("shop.checkout", "3")

    assert caught.value.known == ("1",)


def test_problems_name_the_declaration_and_the_parameter(registry):
    @step(name="shop.charge")
    def charge(card: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    @workflow(name="shop.checkout")
    def checkout(ctx: Context, data: bytes) -> None: ...

    (first, why_first), (second, why_second) = registry.problems()

    assert (first, second) == ("step shop.charge", "workflow shop.checkout")
    assert "parameter 'card'" in why_first
    assert "parameter 'data'" in why_second


def test_an_override_is_forgotten_afterwards(registry):
    outer = declare_step("shop.charge")
    with override_registry() as inner:
        assert isinstance(inner, Registry)
        assert inner.step_names() == ()
        declare_step("shop.other")

    assert default_registry.step_names() == ("shop.charge",)
    assert registry.step("shop.charge") is outer
