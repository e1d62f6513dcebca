"""The test project's settings, ready for `collectstatic`."""

from testproject.settings import *  # noqa: F403 - the test project's settings and one more

STATIC_ROOT = "static-root"
