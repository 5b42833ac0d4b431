"""One process of the program that is killed, with all its children.

Problem: Python, a JVM and Spark's Python workers must die together, at a chosen moment, and none of
them may outlive a test that fails or is interrupted.
Answer: a life leads a session of its own. Spark's Python workers leave the process group, but no
process leaves its session; so the group is killed at once, and then the rest of the session.
Invariant: processes are ended by their id. After `end` none is left; at exit all lives are ended,
and the program ends itself should its parent vanish without a word.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 300
SHUTDOWN_SECONDS = 60


class Life:
    """From the program's start to the end of its last process."""

    _alive: set[Life] = set()  # noqa: RUF012 - of all lives, on purpose
    _guard = threading.Lock()
    _over = False

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        with Life._guard, log.open("wb") as errors:
            if Life._over:
                raise InterruptedError("no new life after the end of all")
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.chaos_query", *arguments],
                env={**os.environ, "PYTHONPATH": _python_path(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            Life._alive.add(self)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self.lines.append("")  # the program and all its writing processes have ended
            self._changed.notify_all()

    @property
    def progress(self) -> list[str]:
        return [line for line in self.lines if line.startswith(("batch ", "published "))]

    def await_progress(self, count: int) -> bool:
        """False if the program ended before it printed "ready" and so many lines of progress."""

        def reached() -> bool:
            return "" in self.lines or ("ready" in self.lines and len(self.progress) >= count)

        with self._changed:
            self._changed.wait_for(reached, PATIENCE_SECONDS)
            return "" not in self.lines and reached()

    def await_end(self, seconds: float = PATIENCE_SECONDS) -> int | None:
        """The exit code of the program, and None if it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def kill(self) -> None:
        """SIGKILL to Python and JVM at once, and then to the rest of the session."""
        if self.process.poll() is None:  # not reaped, so the id cannot be another's by now
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._sweep()

    def end(self) -> None:
        """After this no process of the life is left. A JVM that shuts down is given the time."""
        if self.process.poll() is not None:
            deadline = time.monotonic() + SHUTDOWN_SECONDS
            while any(_session(self.process.pid)) and time.monotonic() < deadline:
                time.sleep(0.02)
        self.kill()
        self._reader.join()
        with Life._guard:
            Life._alive.discard(self)

    def _sweep(self) -> None:
        while members := list(_session(self.process.pid)):
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.01)

    @staticmethod
    def end_all() -> None:
        """For a caller that has to stop at once: ends every life of this process, for good."""
        with Life._guard:
            Life._over = True
            for life in Life._alive:
                life.kill()


atexit.register(Life.end_all)


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))


def _session(leader: int) -> Iterator[int]:
    """The living processes of a session; without /proc the children end by themselves."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # pid (name) state ppid pgrp session ...; the name may hold blanks and brackets.
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                yield int(entry.name)
