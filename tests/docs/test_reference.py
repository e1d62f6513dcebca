"""The reference pages say what the code says: settings, options, commands, errors, checks."""

import ast
import dataclasses
import inspect
import re
from datetime import timedelta

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from durable.authoring.options import StepOptions, WorkflowOptions
from durable.conf import KEYS, SECRET_NAMES, Config, Retention
from durable.core import errors
from durable.core.durations import format_duration
from durable.models import WorkflowRun
from tests.docs.pages import DOCS, ROOT, code, page_name, section, table

PACKAGE = ROOT / "durable"
IN_USE, UNUSED = "In use", "Accepted, not used yet"
IN_WORDS = {
    "REDACT": (SECRET_NAMES, "names that look like secrets"),
    "RETENTION": (Retention(completed=timedelta(days=30), others=timedelta(days=90)), "30 and 90 days"),
    "PAYLOAD_MAX_BYTES": (4 * 1024 * 1024, "`4 MiB`"),
}
"""Defaults that read better in words; the value that the words mean stands beside them."""


def settings_table(heading):
    return table(section(DOCS / "settings.md", heading))


def shown(value):
    """Return how a default is written in a page."""
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple) and value and all(isinstance(each, timedelta) for each in value):
        return f"`({', '.join(format_duration(each) for each in value)})`"
    return f"`{dict(value)!r}`" if hasattr(value, "keys") else f"`{value!r}`"


def test_every_setting_is_described_once():
    described = [code(row[0]) for heading in (IN_USE, UNUSED) for row in settings_table(heading)]

    assert sorted(described) == sorted(KEYS)


@pytest.mark.parametrize("heading", [IN_USE, UNUSED])
def test_described_defaults_of_settings_are_the_defaults(heading):
    for key, default in ((code(row[0]), row[1]) for row in settings_table(heading)):
        value = getattr(Config(), key.lower())
        if key in IN_WORDS:
            meant, default_words = IN_WORDS[key]
            assert (value, default) == (meant, default_words), key
        else:
            assert default == shown(value), key


def test_settings_said_to_be_unused_are_unused_and_the_others_are_used():
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "conf.py"]
    read = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and re.search(r"config(\(\))?$", ast.unparse(node.value)):
                read.add(node.attr.upper())
    unused = {code(row[0]) for row in settings_table(UNUSED)}

    assert unused == set(KEYS) - read, "move the rows of docs/settings.md to the table where they belong now"


@pytest.mark.parametrize(
    ("page", "heading", "options"),
    [("steps.md", "Options", StepOptions), ("workflows.md", "Declare", WorkflowOptions)],
)
def test_described_options_are_the_options(page, heading, options):
    described = {code(row[0]): row[1] for row in table(section(DOCS / page, heading))}
    actual = {each.name: shown(each.default) for each in dataclasses.fields(options)}

    assert described == actual


COMMANDS = sorted(
    name for name, app in get_commands().items() if app == "durable" and not name.startswith("durable_test")
)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_described_with_all_its_options(name):
    described = {code(row[0]): row for row in table(section(DOCS / "commands.md", f"`{name}`"))}
    actual = parameters(name)

    assert sorted(described) == sorted(actual)
    for option, default in actual.items():
        assert default is None or f"{default}" in described[option][1], option


def test_no_command_is_described_that_does_not_exist():
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    described = re.findall(r"^## `(durable_\w+)`", text, re.MULTILINE)

    assert sorted(described) == COMMANDS


def parameters(name):
    """Return the options and arguments of a command, without Django's own, each with its default."""
    parser = load_command_class("durable", name).create_parser("manage.py", name)
    django_s = BaseCommand().create_parser("manage.py", name)
    inherited = {option for action in django_s._actions for option in action.option_strings}
    mine: dict[str, object] = {}
    for action in parser._actions:
        new = [option for option in action.option_strings if option not in inherited]
        if not action.option_strings:
            mine[str(action.metavar or action.dest)] = None
        elif new or (action.dest == "version" and type(action).__name__ == "_StoreAction"):
            mine[(new or action.option_strings)[-1]] = action.default or None
    return {option: default for option, default in mine.items() if option != "--database"}


def test_the_tree_of_errors_is_the_tree():
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    drawn = page.partition("```text\n")[2].partition("```")[0]
    in_code = str(inspect.getdoc(errors)).partition("::\n\n")[2]

    def lines(text):
        return [line.strip() for line in text.strip().splitlines()]

    own = [line for line in lines(in_code) if "ControlFlow" not in line and "FatalError" not in line]
    assert lines(drawn) == own[: len(lines(drawn))]


def test_every_error_is_described_with_code_and_attributes():
    described = {code(row[0]): row for row in table(section(DOCS / "errors.md", "What they mean"))}
    public = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.DurableError) and kind is not errors.DurableError
    }

    assert described.keys() == public.keys()
    for name, kind in public.items():
        named = re.findall(r"`(\w+)`", described[name][2])
        assert re.findall(r"`(\w+)`", described[name][1])[0] == kind.code, name
        assert named == attributes(kind), name


def attributes(kind):
    """Return what the constructor of an error keeps, in order."""
    if not inspect.isfunction(kind.__init__):
        return []
    source = inspect.getsource(kind.__init__)
    body = ast.parse(inspect.cleandoc(source) if source.startswith("def") else f"class _:\n{source}")
    return [
        node.attr
        for node in ast.walk(body)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    ]


def test_every_check_is_described():
    text = (PACKAGE / "checks.py").read_text(encoding="utf-8")
    raised = set(re.findall(r'id="(durable\.\w\d+)"', text))

    assert {code(row[0]) for row in table(section(DOCS / "errors.md", "System checks"))} == raised


def test_permissions_are_those_of_runs():
    meta = WorkflowRun._meta
    known = {name for name, _ in meta.permissions} | {f"{each}_{meta.model_name}" for each in meta.default_permissions}
    described = {code(row[0]) for row in table(section(DOCS / "operations.md", "The admin"))}

    assert described <= {f"durable.{name}" for name in known}
    assert {f"durable.{name}" for name, _ in meta.permissions} <= described


def test_the_glossary_is_in_order():
    words = [row[0] for row in table((DOCS / "glossary.md").read_text(encoding="utf-8"))]

    assert words == sorted(words, key=str.lower), page_name(DOCS / "glossary.md")
