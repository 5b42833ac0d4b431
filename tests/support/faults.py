"""A checkpoint file system that follows a test's script (tests/jvm/ScriptedFileSystem.scala).

Problem: slow, failing, tearing and lying file systems must be so at a chosen operation, and a test
must know that the operation is under way.
Answer: `FileFaults` writes the script of that file system, and reads its record of all that was
done. A session of `session()` uses it below everything, for local paths and for `scripted://` ones.
Invariant: after the fixture nothing is held and the script is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.compilation import harness_jar
from support.counting import eventually, new_session
from tailrace import _jvm

TESTING = "org.apache.spark.sql.tailrace.testing."
PACK = r"/state/tailrace/\d+-[0-9a-f]+\.pack\.tr$"
CONFS = {
    "fs.file.impl": TESTING + "ScriptedFileSystem",
    "fs.file.impl.disable.cache": "true",
    "fs.scripted.impl": TESTING + "ScriptedRemoteFileSystem",
    "fs.scripted.impl.disable.cache": "true",
}
ALWAYS = 1_000_000


class FileFaults:
    """The script of the file system in the JVM of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        jvm = spark._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        if loader.getResource((TESTING + "FileScript").replace(".", "/") + ".class") is None:
            _jvm.add_to_class_path(jvm, harness_jar())
        self._script = getattr(jvm.org.apache.spark.sql.tailrace.testing, "FileScript")  # noqa: B009

    def session(self, **options: str) -> SparkSession:
        """A session whose files are on the scripted file system."""
        session = new_session(self.spark, **options)
        for name, value in CONFS.items():
            session.conf.set(name, value)
        return session

    def fail(self, operation: str, pattern: str, times: int = ALWAYS) -> None:
        """An error in place of the operation."""
        self._script.add(operation, pattern, "fail", 0, times)

    def fail_late(self, operation: str, pattern: str, times: int = ALWAYS) -> None:
        """An error though the operation was done."""
        self._script.add(operation, pattern, "late", 0, times)

    def delay(self, operation: str, pattern: str, milliseconds: int) -> None:
        self._script.add(operation, pattern, "delay", milliseconds, ALWAYS)

    def cut(self, pattern: str, size: int, times: int = ALWAYS) -> None:
        """A file takes so many bytes, and then writing fails."""
        self._script.add("create", pattern, "cut", size, times)

    def fill(self, pattern: str, size: int, times: int = ALWAYS) -> None:
        """A file takes so many bytes, and then the disk is full, as Hadoop says it: an Error."""
        self._script.add("create", pattern, "full", size, times)

    @contextmanager
    def hold(self, operation: str = "create", pattern: str = PACK) -> Iterator[Any]:
        """Holds operations up until the end of the block; gives a function that waits for one."""
        self._script.add(operation, pattern, "hold", 0, ALWAYS)
        try:
            yield lambda: eventually(lambda: self._script.held() > 0, f"a {operation} to be held")
        finally:
            self.clear()

    def clear(self) -> None:
        self._script.clear()

    def note(self, text: str) -> None:
        self._script.note(text)

    @property
    def record(self) -> list[str]:
        return list(self._script.record())


@pytest.fixture
def faults(spark: SparkSession) -> Iterator[FileFaults]:
    script = FileFaults(spark)
    yield script
    script.clear()
