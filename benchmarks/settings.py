"""Settings of the measurements: the test project's, on PostgreSQL and on SQLite, with what a newcomer gets."""

import os

from testproject.database import settings_of
from testproject.settings import *  # noqa: F403 - the test project's settings, changed below
from testproject.settings import INSTALLED_APPS as PROJECT_APPS

DEBUG = False
INSTALLED_APPS = [*PROJECT_APPS, "benchmarks"]
DATABASES = {
    "default": settings_of(os.environ["BENCH_POSTGRES"]),
    "sqlite": settings_of(os.environ["BENCH_SQLITE"]),
}
