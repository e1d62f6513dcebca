"""Object tools as django-admin-extensions knows them: callables that take the template's context and return a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.template.context import Context
from django.template.loader import render_to_string


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTool:
    """A button that posts, with the token against forged requests.

    Attributes:
        request: Whose token it is.
        address: Where it posts to.
        label: What it says.
    """

    request: HttpRequest
    address: str
    label: Any

    @property
    def do_not_call_in_templates(self) -> bool:
        """Keep templates from calling what they look up; the tag does, with the context."""
        return True

    def __call__(self, context: Context, link_class: str = "") -> str:
        """Return the button."""
        facts = {"address": self.address, "label": self.label, "link_class": link_class}
        return render_to_string("admin/durable/post_tool.html", facts, self.request)
