"""What a test does when a service that it needs is not there."""

import os
from typing import NoReturn

import pytest


def missing(service: str, reason: str) -> NoReturn:
    """Skip the test with a sentence that names the service; where `CI` is set, fail it.

    Args:
        service: what is missing, as people call it ("Redis").
        reason: why it cannot be used, and how to provide it.
    """
    message = f"needs {service}: {reason}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
