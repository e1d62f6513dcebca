"""Counting what arrives at a PostgreSQL server: a tap in the line between it and its clients.

The tap reads the protocol and not a log, so that it counts on any server, also on one whose log cannot be read. It sees
prepared statements by their text, and the end of each transaction in what the server answers.
"""

import contextlib
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connections

from testproject.database import url_of

PORT = 5432
BOUNDS = ("BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK")
HINTS = ("NOTIFY", "LISTEN")
CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement as the server got it: on which connection, in which transaction of it, and when (monotonic)."""

    connection: int
    transaction: int
    at: float
    text: str

    @property
    def is_hint(self) -> bool:
        """A notification or its like: counted apart."""
        return self.text.startswith(HINTS)

    @property
    def is_bound(self) -> bool:
        """The begin or the end of a transaction: counted as a transaction, not as a statement."""
        return self.text.startswith(BOUNDS)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was sent in a stretch of time.

    A statement that stands alone is a transaction, whether it writes or not.
    """

    sent: tuple[Sent, ...]

    @property
    def statements(self) -> list[str]:
        """The statements, without hints and without the bounds of transactions."""
        return [each.text for each in self.sent if not each.is_hint and not each.is_bound]

    @property
    def transactions(self) -> int:
        """How many transactions they made."""
        return len({(each.connection, each.transaction) for each in self.sent if not each.is_hint})

    @property
    def hints(self) -> int:
        """How many hints were sent."""
        return sum(each.is_hint for each in self.sent)

    def on(self, connections: set[int]) -> "Tally":
        """Return what was sent on some connections."""
        return Tally(tuple(each for each in self.sent if each.connection in connections))

    def containing(self, text: str) -> "Tally":
        """Return the statements that contain a text."""
        return Tally(tuple(each for each in self.sent if text in each.text))

    @property
    def connections(self) -> set[int]:
        """On which connections something was sent."""
        return {each.connection for each in self.sent}

    def __str__(self) -> str:
        lines = [f"{each.connection}.{each.transaction}: {each.text[:150]}" for each in self.sent]
        return "\n".join([f"{len(self.statements)} statements, {self.transactions} transactions", *lines])


@dataclass(slots=True)
class Line:
    """What the tap knows of one connection."""

    number: int
    statements: dict[bytes, str] = field(default_factory=dict)
    portals: dict[bytes, bytes] = field(default_factory=dict)
    transaction: int = 0
    used: bool = False


class Tap:
    """A way to the server of a database alias on which every statement is noted.

    Args:
        alias: Whose server.
    """

    def __init__(self, alias: str = "default") -> None:
        self.alias = alias
        self._folder = Path(tempfile.mkdtemp(prefix="tap-"))
        self._server = _address(connections[alias].settings_dict)
        self._sent: list[Sent] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / f".s.PGSQL.{PORT}"))
        self._listener.listen()
        threading.Thread(target=self._accept, name="tap", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the database through the tap."""
        return url_of({**connections[self.alias].settings_dict, "HOST": str(self._folder), "PORT": str(PORT)})

    @contextlib.contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Lead this thread's connection through the tap."""
        wrapper = connections[self.alias]
        before = {key: wrapper.settings_dict[key] for key in ("HOST", "PORT")}
        wrapper.close()
        wrapper.settings_dict.update(HOST=str(self._folder), PORT=str(PORT))
        try:
            yield
        finally:
            wrapper.close()
            wrapper.settings_dict.update(before)

    def mark(self) -> int:
        """Return where the record stands now."""
        return len(self._sent)

    def since(self, mark: int = 0) -> Tally:
        """Return what was sent since a mark."""
        with self._lock:
            return Tally(tuple(self._sent[mark:]))

    def during(self, action: Callable[[], object]) -> Tally:
        """Return what is sent while the action runs."""
        mark = self.mark()
        action()
        return self.since(mark)

    def close(self) -> None:
        """End all connections."""
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            server = (
                socket.create_connection(self._server) if isinstance(self._server, tuple) else _connect(self._server)
            )
            self._sockets += [client, server]
            line = Line(number)
            threading.Thread(target=self._serve, args=(client, server, line), name="tap-line", daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket, line: Line) -> None:
        questions = _Reader(lambda kind, body: self._asked(line, kind, body), starts=True)
        answers = _Reader(lambda kind, body: self._answered(line, kind, body), starts=False)
        ways = {client: (server, questions), server: (client, answers)}
        with contextlib.suppress(OSError, ValueError):
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(CHUNK_BYTES)
                    if not data:
                        client.close()
                        server.close()
                        return
                    target, reader = ways[source]
                    reader.read(data)
                    target.sendall(data)

    def _asked(self, line: Line, kind: bytes, body: bytes) -> None:
        match kind:
            case b"Q":
                self._note(line, body.rstrip(b"\0").decode())
            case b"P":
                name, text, *_ = body.split(b"\0")
                line.statements[name] = text.decode()
            case b"B":
                portal, name, *_ = body.split(b"\0")
                line.portals[portal] = name
            case b"E":
                portal, *_ = body.split(b"\0")
                self._note(line, line.statements[line.portals[portal]])
            case _:
                pass

    def _note(self, line: Line, text: str) -> None:
        line.used = True
        sent = Sent(line.number, line.transaction, time.monotonic(), " ".join(text.split()))
        with self._lock:
            self._sent.append(sent)

    @staticmethod
    def _answered(line: Line, kind: bytes, body: bytes) -> None:
        if kind == b"Z" and body == b"I" and line.used:
            line.transaction += 1
            line.used = False


class _Reader:
    """Cuts a stream of the protocol into messages."""

    def __init__(self, found: Callable[[bytes, bytes], None], *, starts: bool) -> None:
        self._found = found
        self._starts = starts
        self._rest = b""

    def read(self, data: bytes) -> None:
        self._rest += data
        while (message := self._next()) is not None:
            self._found(*message)

    def _next(self) -> tuple[bytes, bytes] | None:
        head = 4 if self._starts else 5
        if len(self._rest) < head:
            return None
        (length,) = struct.unpack("!I", self._rest[head - 4 : head])
        end = head - 4 + length
        if len(self._rest) < end:
            return None
        kind, body = self._rest[: head - 4], self._rest[head:end]
        self._rest = self._rest[end:]
        self._starts = False  # only the first message of a client has no kind
        return kind, body


def _address(settings: dict[str, Any]) -> tuple[str, int] | str:
    host, port = str(settings.get("HOST") or "localhost"), int(settings.get("PORT") or PORT)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


def _connect(address: tuple[str, int] | str) -> socket.socket:
    if isinstance(address, tuple):
        return socket.create_connection(address)
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    return server
