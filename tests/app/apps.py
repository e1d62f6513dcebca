from django.apps import AppConfig


class TestAppConfig(AppConfig):
    """Workflows, steps and models that only the tests need."""

    name = "tests.app"
    label = "tests_app"
