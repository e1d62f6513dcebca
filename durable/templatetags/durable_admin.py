"""Template tags of the admin pages: ``object_tool``.

With django-admin-extensions it is that package's own tag, so that a project needs nothing more in ``INSTALLED_APPS``;
without it, one that understands the same words.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template.base import FilterExpression, Parser, Token
from django.template.context import Context

register = template.Library()


class OwnObjectToolNode(template.Node):
    """Call a tool with the template's context: ``{% object_tool tool [link_class] [as name] %}``.

    Args:
        tool: Gives the callable.
        link_class: Gives the class of its link.
        name: Where the result goes; ``None`` puts it in the page.
    """

    def __init__(self, tool: FilterExpression, link_class: FilterExpression | None, name: str | None) -> None:
        self._tool = tool
        self._link_class = link_class
        self._name = name

    def render(self, context: Context) -> Any:
        """Return what the tool returns, or remember it."""
        given = {} if self._link_class is None else {"link_class": self._link_class.resolve(context)}
        out = self._tool.resolve(context)(context, **given)
        if self._name is None:
            return out
        context[self._name] = out
        return ""


def own_object_tool(parser: Parser, token: Token) -> template.Node:
    """Compile the tag."""
    words = token.split_contents()[1:]
    name = words.pop() if len(words) > 2 and words[-2] == "as" else None
    words = [word for word in words if word != "as"] if name is not None else words
    if not 1 <= len(words) <= 2:
        raise template.TemplateSyntaxError("object_tool takes a tool, a class if need be, and 'as' with a name")
    tool, *link_class = (parser.compile_filter(word) for word in words)
    return OwnObjectToolNode(tool, link_class[0] if link_class else None, name)


try:
    from adminextensions.templatetags.admin_extensions import object_tool
except ImportError:
    object_tool = own_object_tool

register.tag("object_tool", object_tool)
