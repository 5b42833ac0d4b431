"""Programs of the tests that need a process, and a JVM, of their own.

Problem: the end of a session, the loss of an executor and a rule switched off can be tested only
in a process that no other test uses, and no such process may outlive its test.
Answer: `Program` starts a module of this package as a program, in a process group of its own, and
reads its output, a line of JSON at a time (`say`). `session` is their Spark session.
Invariant: after the block of `Program` neither the program nor its JVM is alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

import tailrace
from support.compilation import harness_jar
from support.counting import PATIENCE_SECONDS, eventually

# Reads TAILRACE_FAILPOINTS and TAILRACE_RULES_OFF: the engine itself does not.
FAULTS_PLUGIN = "tailrace.testing.FaultsPlugin"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str = "local[2]", confs: Mapping[str, str] | None = None, **options: Any
) -> SparkSession:
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.jars": str(harness_jar()),
        "spark.log.level": "ERROR",
        "spark.plugins": FAULTS_PLUGIN,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(confs or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return tailrace.configure(builder, **options).getOrCreate()


def say(what: str, **facts: Any) -> None:
    """A line to the test that started the program; it has the JVM's id."""
    gateway: Any = SparkContext._gateway
    print(json.dumps({"said": what, "jvm": gateway.proc.pid, **facts}), flush=True)


class Program:
    """A running program: `with Program("support.leaving", folder) as program: ...`."""

    def __init__(
        self, module: str, *arguments: object, environment: Mapping[str, str] | None = None
    ) -> None:
        self.module = module
        self.arguments = [str(argument) for argument in arguments]
        self.environment = environment or {}
        self.jvm: int | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Program:
        tests = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.module, *self.arguments],
            cwd=tests,
            env={**os.environ, "PYTHONPATH": path, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def expect(self, what: str) -> dict[str, Any]:
        """The program's next message, which must be this."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_SECONDS)
            except queue.Empty:
                raise AssertionError(f"{self.module} did not say {what!r}") from None
            assert line, f"{self.module} ended before it said {what!r}"
            if line.startswith('{"said"'):
                message: dict[str, Any] = json.loads(line)
                self.jvm = message["jvm"]
                assert message["said"] == what
                return message

    def interrupt(self) -> None:
        """Ctrl-C: SIGINT to every process in the program's process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def await_end(self) -> int:
        """Waits for the program and for its JVM; the program's exit code."""
        code = self.process.wait(PATIENCE_SECONDS)
        eventually(lambda: not self.jvm_lives, "the end of the JVM")
        return code

    @property
    def jvm_lives(self) -> bool:
        return self.jvm is not None and Path(f"/proc/{self.jvm}").exists()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
