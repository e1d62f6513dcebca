"""Django's command line for the test project; works from any directory."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command named on the command line."""
    # This file's own folder is not on the path: its modules are known as `testproject.…` only.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after the settings are named

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
