from django.apps import AppConfig


class TestAppConfig(AppConfig):
    """Workflows, steps and models that only the tests need."""

    name = "tests.app"
    label = "tests_app"

    def ready(self) -> None:
        """Install the fail-points that the test asked for in the environment."""
        import tests.app.golden  # noqa: F401  # its workflow is registered by being imported
        from durable.testing.failpoints import install_from_environment

        install_from_environment()
