"""The engine reaches the world through its five ports only."""

import ast
from collections.abc import Iterator

from tests.architecture.sources import Source, dotted, imports, sources

ROOMS = {"engine", "worker", "transports", "store"}

# The seam is where the store meets Django's connections; nowhere else is a connection seen.
SEAM = ("store/django_session.py", "store/connections.py", "store/hints.py")
CONNECTION_MODULES = ("django.db.connection", "django.db.connections", "django.db.transaction", "django.db.router")

# One SQLite connection may be shared by threads; the lock belongs to it.
ALLOWED = {(SEAM[0], "threading")}

WORLD = ("time", "random", "secrets", "uuid", "threading", "_thread", "queue", "concurrent", "multiprocessing")
WORLD_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "timezone.now",
    "os.urandom",
    "os.fork",
    "os.times",
}


def leaks(source: Source) -> Iterator[str]:
    """Yield each place that reads a clock, makes a random number, starts a thread or takes a connection by itself."""
    for node, name in imports(source.tree):
        if name.split(".")[0] in WORLD and (source.name, name) not in ALLOWED:
            yield source.at(node, f"imports {name}; use a port (Clock, Ids or Spawn)")
        if name == "django.utils.timezone.now":
            yield source.at(node, "imports timezone.now; use the port Clock")
        if name.startswith(CONNECTION_MODULES) and source.name not in SEAM:
            yield source.at(node, f"imports {name}; only {', '.join(SEAM)} may")
    for node in ast.walk(source.tree):
        used = dotted(node) if isinstance(node, ast.Attribute) else None
        if used in WORLD_CALLS:
            yield source.at(node, f"uses {used}; use a port (Clock or Ids)")
        if used in {"django.db.connection", "django.db.connections"} and source.name not in SEAM:
            yield source.at(node, f"uses {used}; only {', '.join(SEAM)} may")


def test_the_engine_reaches_the_world_through_its_ports_only():
    found = [leak for source in sources() if source.room in ROOMS for leak in leaks(source)]

    assert not found, "\n".join(found)


def test_leaks_are_seen():
    text = (
        "import time\nimport uuid as u\nfrom random import random\nfrom datetime import datetime\n"
        "from django.utils import timezone\nfrom django.db import connection\n"
        "datetime.now()\ntimezone.now()\n"
    )
    source = Source(path=sources()[0].path.parent / "engine" / "x.py", text=text, tree=ast.parse(text))

    assert [leak.split(":")[1] for leak in leaks(source)] == ["1", "2", "3", "6", "7", "8"]
