"""``python -m testproject.demo``: makes a new database, names the settings, then tells the story."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from testproject.shop.orders import ORDERS_FILE


def main() -> int:
    """Run the demo; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m testproject.demo", description=__doc__)
    parser.add_argument("--orders", type=Path, default=ORDERS_FILE, metavar="FILE", help="the order file")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where to make the demo's folder (default: the system's)"
    )
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="durable-demo-", dir=options.folder)).resolve()
    database = folder / "demo.sqlite3"
    os.environ["DATABASE_URL"] = f"sqlite:///{database}"
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.demo.settings"
    import django  # noqa: PLC0415 - after the settings are named

    django.setup()
    from testproject.demo.story import Story  # noqa: PLC0415 - its models need Django

    return Story(orders_file=options.orders, database=database).tell()


if __name__ == "__main__":
    sys.exit(main())
