from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """Workflows whose statements are counted."""

    name = "tests.budgets"
    label = "budgets"
