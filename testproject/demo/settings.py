"""The test project's settings with a short lease, so that nobody waits long for the killed worker's work."""

from testproject.settings import *  # noqa: F403 - the test project's settings and one more

DURABLE = {"LEASE": "5s"}
