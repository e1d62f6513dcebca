"""``manage.py shop_check``: compares the order file, the store and the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from testproject.shop.check import find_differences
from testproject.shop.orders import ORDERS_FILE

MOST_SHOWN = 20


class Command(BaseCommand):
    """Ends with code 1 when anything differs."""

    help = "Compares the order file with the runs, their checkpoints, the payment ledger, the parcels and the stock."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the order file."""
        parser.add_argument("--orders", type=Path, default=ORDERS_FILE, metavar="FILE", help="the order file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Compare and report."""
        differences = find_differences(options["orders"])
        for difference in differences[:MOST_SHOWN]:
            self.stderr.write(difference)
        if differences:
            raise CommandError(f"{len(differences)} differences between the order file, the store and the ledger.")
        if options["verbosity"] > 0:
            self.stdout.write("No difference between the order file, the store and the ledger.")
