import subprocess
import sys

import pytest

import durable

PROGRAM = """
import sys
import durable
for name in durable.__all__:
    getattr(durable, name)
print("django" in sys.modules, "pydantic" in sys.modules)
"""


def test_the_package_is_imported_without_django_and_pydantic():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=50)

    assert done.stdout.split() == ["False", "False"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'durable' has no attribute 'stpe'"):
        durable.stpe  # noqa: B018


def test_what_touches_the_database_is_listed_too():
    assert {"api", "step", "workflow"} <= set(dir(durable))
