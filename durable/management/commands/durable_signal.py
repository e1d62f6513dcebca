"""``manage.py durable_signal``: sends a signal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable import api
from durable.engine.engine import Engine
from durable.management.base import DONE, DurableCommand, add_json_option
from durable.management.payloads import HELP, read_payload
from durable.management.wording import count
from durable.models import SignalWaiter


class Command(DurableCommand):
    """Sends a signal."""

    help = "Sends a signal to the run that waits for a token; it is kept when none waits yet."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add token and payload."""
        super().add_arguments(parser)
        parser.add_argument("token", help="what the run waits for, such as approve:42")
        parser.add_argument("--payload", metavar="JSON", help=f"what the run receives (default: null): {HELP}")
        add_json_option(parser)

    def perform(self, engine: Engine, options: dict[str, Any]) -> int:
        """Send the signal."""
        token = options["token"]
        payload = read_payload(options["payload"], "--payload")
        waiting = SignalWaiter.objects.using(engine.alias).filter(token=token).count()
        api.signal(token, payload, using=engine.alias)
        if options["json"]:
            self.print_json({"token": token, "sent": True, "waiting": waiting})
        else:
            whom = f"{count(waiting, 'run')} waited for it" if waiting else "no run waits for it yet, so it is kept"
            self.say(f"Sent {self.style.SUCCESS(token)}: {whom}.", options)
        return DONE
