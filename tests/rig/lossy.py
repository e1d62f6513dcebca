"""A proxy before PostgreSQL that loses answers: a statement took effect, and nobody is told.

It understands as much of the protocol as is needed to know an answer to a COMMIT, or to a statement that committed
alone: a command is complete, and the session is ready without a transaction.
"""

import contextlib
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PORT = 5432
COMMAND_COMPLETE, READY, IDLE = b"C", b"Z", b"I"


class LossyProxy:
    """Listens on a Unix socket in a folder of its own and passes everything on, until it is told to lose an answer.

    Args:
        connect: Opens a connection to the server.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self.folder = Path(tempfile.mkdtemp(prefix="durable-lossy-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / f".s.PGSQL.{PORT}"))
        self._listener.listen()
        self._left = 0
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, number: int) -> None:
        """Lose the `number`-th answer to a commit from now on, and the connection with it; 0 loses none."""
        self._left = number

    def close(self) -> None:
        """Listen no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = self._connect()
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    @staticmethod
    def _pass_on(client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError), server, client:
            for batch, is_commit in answers(server):
                if is_commit and self._is_to_be_lost():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(batch)

    def _is_to_be_lost(self) -> bool:
        if self._left == 0:
            return False
        self._left -= 1
        if self._left:
            return False
        self.lost += 1
        return True


def answers(server: socket.socket) -> Iterator[tuple[bytes, bool]]:
    """Yield what the server says, whole messages, an answer in one piece where it may be the answer to a commit."""
    stream = server.makefile("rb")
    batch, is_complete, is_past_login = b"", False, False
    while len(head := stream.read(5)) == 5:
        kind, body = head[:1], stream.read(struct.unpack("!I", head[1:])[0] - 4)
        batch += head + body
        is_complete = is_complete or kind == COMMAND_COMPLETE
        if kind == READY:
            yield batch, is_complete and body == IDLE
            batch, is_complete, is_past_login = b"", False, True
        elif not is_past_login:
            yield batch, False
            batch = b""


def connector(facts: dict[str, Any]) -> Callable[[], socket.socket]:
    """Return what connects to the server of an entry of `DATABASES`."""
    host, port = str(facts["HOST"] or "/var/run/postgresql"), int(facts["PORT"] or 5432)

    def connect() -> socket.socket:
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host, port))

    return connect
