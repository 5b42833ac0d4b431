"""A quiet local Spark session for the commands.

Problem: a JVM writes warnings of its own over a command's output, and a command that
fails has to show why.
Answer: the JVM's standard error goes to a file, whose end is shown when the command fails.
Invariant: however it ends, the session is stopped, its JVM has ended and its files are deleted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tailrace.cli._folder import deaf, temporary_folder
from tailrace.errors import SessionError, TailraceError
from tailrace.session import configure, refuse_remote


@dataclass(frozen=True)
class LocalSession:
    """A session, and a directory that lives as long as it does."""

    spark: SparkSession
    directory: Path


@contextlib.contextmanager
def local_session(
    name: str,
    cores: int = 2,
    memory: str = "2g",
    settings: dict[str, str] | None = None,
    confs: dict[str, str] | None = None,
) -> Iterator[LocalSession]:
    """A session of this process alone, with tailrace configured, or with another one's `confs`."""
    refuse_remote({})
    with temporary_folder() as directory, _quiet():
        builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
        if confs is None:
            configure(builder)
        else:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # as configure does
        defaults = {
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for key, value in (defaults | (confs or {}) | (settings or {})).items():
            builder.config(key, value)
        log = directory / "jvm.log"
        spark: SparkSession | None = None
        try:
            with _standard_error_to(log):
                spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            yield LocalSession(spark, directory)
        except TailraceError:
            raise
        except Exception as error:
            # Now, because Spark's errors ask the JVM for their text.
            raise SessionError(
                "Spark failed." if spark else "Spark did not start.",
                readable(str(error)) if spark else _end_of(log),
                "Correct the cause. If it lies in tailrace, please report it.",
            ) from None
        finally:
            with deaf():
                _end(spark)


def _end(spark: SparkSession | None) -> None:
    """Stops the session, and waits for the JVM so that no process or file remains."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    # A JVM that has ended cannot be stopped, and need not be.
    with contextlib.suppress(Exception):
        if spark is not None:
            spark.sparkContext.setLogLevel("OFF")
            spark.stop()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()  # PySpark's JVM ends when this pipe does
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """py4j logs a stack trace for each call that a signal or the JVM's end broke off."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """A process that starts in here writes its standard error to a file, for all its life."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def readable(message: str, limit: int = 12) -> str:
    """A JVM's error without stack traces and query plans: each line once, a few at most."""
    lines = (line.strip() for line in message.partition("=== Streaming Query ===")[0].splitlines())
    kept = dict.fromkeys(line for line in lines if line and not line.startswith(("at ", "... ")))
    return "\n".join(list(kept)[:limit])


def _end_of(log: Path, lines: int = 25) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-lines:])
    return "The JVM wrote nothing."
