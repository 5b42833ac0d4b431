"""A line to a server that a test can hold up.

Problem: a slow server is one that answers after a test has seen that it was asked, and no sleep
says when that is.
Answer: a port that hands everything on to the server's port and back, but waits at a gate before
it hands on a request.
Invariant: no byte is lost or changed.
"""

from __future__ import annotations

import contextlib
import socket
import threading

PATIENCE_SECONDS = 300


class SlowLine:
    """Stands between a client and the server at `port`. Closed at first."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.asked = threading.Event()
        """A request has come, and waits if the line is closed."""
        self.open = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> SlowLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.open.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for pair in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, gated: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if gated:
                    self.asked.set()
                    self.open.wait(PATIENCE_SECONDS)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
