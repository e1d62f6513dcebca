"""The Django app: what happens when a project starts."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class DurableConfig(AppConfig):
    """Configuration of the app ``durable``."""

    name = "durable"
    verbose_name = _("Durable workflows")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks, name declarations by their apps, connect them to the engine, and find them."""
        import durable.checks  # noqa: F401  # importing it registers the checks
        from durable.api import EngineDriver
        from durable.authoring.driver import install_driver
        from durable.authoring.naming import set_app_label_resolver

        set_app_label_resolver(label_of_app)
        install_driver(EngineDriver())
        autodiscover_modules("workflows", "steps")


def label_of_app(module: str) -> str:
    """Return the label of the app that a module belongs to; outside of apps the top package."""
    config = apps.get_containing_app_config(module)
    return module.partition(".")[0] if config is None else config.label
