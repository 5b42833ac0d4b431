"""The Redis server of the tests and the bench: real, empty, and gone with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tailrace.bench import redis_server as module
from tailrace.bench.redis_server import RedisServer
from tailrace.bench.stores import BenchError

PATIENCE_SECONDS = 300


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while module._alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def test_a_stopped_server_comes_back_empty_on_its_port(redis_server: RedisServer) -> None:
    redis_server.client.set("a", "1")
    pid = redis_server._pid
    redis_server.stop()
    wait_until_gone(pid)
    redis_server.start()
    assert redis_server.client.get("a") is None
    redis_server.kill()
    assert not redis_server.running


def test_a_frozen_server_can_be_stopped(redis_server: RedisServer) -> None:
    redis_server.freeze()
    redis_server.stop()
    wait_until_gone(redis_server._pid)


def test_no_server_outlives_a_process_that_was_killed(redis_server: RedisServer) -> None:
    script = (
        "import sys; from tailrace.bench.redis_server import shared; "
        "print(shared()._pid, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert module._alive(pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until_gone(pid)


def test_without_a_program_the_error_tells_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_server", lambda: None)
    with pytest.raises(BenchError, match="no Redis server on this machine"):
        RedisServer()
