"""Settings of worker processes whose statements are counted: those of the tests, with the workflows of this folder."""

from tests.settings import *  # noqa: F403 - the settings of the tests, changed below
from tests.settings import INSTALLED_APPS as TEST_APPS

INSTALLED_APPS = [*TEST_APPS, "tests.budgets"]
