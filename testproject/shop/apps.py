"""The shop's place among the installed apps."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """The shop."""

    name = "testproject.shop"
    label = "shop"
