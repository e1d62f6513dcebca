"""Object tools, with and without django-admin-extensions."""

import importlib
import importlib.util
import sys

import pytest
from django.template import Context, Engine, TemplateSyntaxError
from django.test import RequestFactory

from durable.admin.tools import PostTool
from durable.templatetags import durable_admin

INSTALLED = importlib.util.find_spec("adminextensions") is not None
LIBRARIES = ["durable.templatetags.durable_admin", "tests.admin.own_tag"]


def rendered(library: str, text: str) -> str:
    engine = Engine(builtins=[library])
    return engine.from_string(text).render(Context({"tool": CallMe(), "x": "a<b"}))


class CallMe:
    do_not_call_in_templates = True

    def __call__(self, context: Context, link_class: str = "none") -> str:
        return f"{context['x']} {link_class}"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% object_tool tool %}", "a<b none"),
        ("{% object_tool tool 'big' %}", "a<b big"),
        ("{% object_tool tool as link %}[{{ link }}]", "[a&lt;b none]"),
        ("{% object_tool tool 'big' as link %}[{{ link }}]", "[a&lt;b big]"),
    ],
)
def test_the_tag_calls_the_tool(library, text, expected):
    assert rendered(library, text) == expected


@pytest.mark.parametrize("text", ["{% object_tool %}", "{% object_tool tool a b %}"])
def test_nonsense_is_a_syntax_error(text):
    with pytest.raises(TemplateSyntaxError):
        rendered("tests.admin.own_tag", text)


@pytest.mark.skipif(not INSTALLED, reason="needs django-admin-extensions")
def test_the_package_lends_its_tag():
    theirs = importlib.import_module("adminextensions.templatetags.admin_extensions")

    assert durable_admin.register.tags["object_tool"] is theirs.object_tool


def test_without_the_package_the_tag_is_our_own(monkeypatch):
    for name in ("adminextensions", "adminextensions.templatetags.admin_extensions"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("durable_admin_alone", durable_admin.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    spec.loader.exec_module(module)

    assert module.object_tool is module.own_object_tool


def test_a_button_posts_with_its_token():
    request = RequestFactory().get("/")
    tool = PostTool(request=request, address='/x"y/', label="Do <it>")

    html = tool(Context({}), link_class="big")

    assert 'method="post" action="/x&quot;y/"' in html
    assert "csrfmiddlewaretoken" in html
    assert '<button type="submit" class="big">Do &lt;it&gt;</button>' in html
