"""The tag for object tools as it is without django-admin-extensions, as a template library."""

from django import template

from durable.templatetags.durable_admin import own_object_tool

register = template.Library()
register.tag("object_tool", own_object_tool)
