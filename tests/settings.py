"""Settings of the tests: the test project's, on the database that the pass chose (see `tests.rig.plugin`)."""

import json
import os
from typing import Any

from testproject.database import settings_of
from testproject.settings import *  # noqa: F403 - the test project's settings, changed below
from testproject.settings import INSTALLED_APPS as PROJECT_APPS


def _database(variable: str) -> dict[str, Any]:
    database = settings_of(os.environ[variable])
    # A child process is given the test database itself as its address; only pytest makes `TEST["NAME"]` of it.
    database["TEST"] = {"NAME": os.environ.get(f"{variable}_TEST_NAME")}
    return database


DEBUG = False
SECRET_KEY = "for tests only"
INSTALLED_APPS = [*PROJECT_APPS, "tests.app"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {"default": _database("DATABASE_URL"), "other": _database("DATABASE_URL_OTHER")}
DURABLE = json.loads(os.environ.get("DURABLE_TEST_SETTINGS", "{}"))
