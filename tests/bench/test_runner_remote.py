"""The simulated line: every operation costs its round trip, every byte its share of bandwidth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tailrace.bench.remote import Remote, behind_settings

LINE = Remote.parse("rtt=3ms,bandwidth=8mbit")
RTT, BYTES_PER_SECOND = 0.003, 1_000_000


class Files:
    """Hadoop's FileSystem and FileContext on one scheme, through py4j."""

    def __init__(self, spark: SparkSession, scheme: str, folder: Path) -> None:
        self.jvm: Any = spark._jvm
        self.hadoop = self.jvm.org.apache.hadoop
        self.conf = self.hadoop.conf.Configuration()
        for key, value in (LINE.settings() | behind_settings(LINE)).items():
            self.conf.set(key.removeprefix("spark.hadoop."), value)
        self.root = f"{scheme}://{folder}"
        uri = self.jvm.java.net.URI.create(self.root)
        self.system = self.hadoop.fs.FileSystem.newInstance(uri, self.conf)
        self.context = self.hadoop.fs.FileContext.getFileContext(uri, self.conf)

    def path(self, name: str) -> Any:
        return self.hadoop.fs.Path(f"{self.root}/{name}")

    def write(self, name: str, content: bytes) -> None:
        stream = self.system.create(self.path(name))
        stream.write(content, 0, len(content))
        stream.close()

    def read(self, name: str) -> bytes:
        stream = self.system.open(self.path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def counts(self) -> dict[str, int]:
        text = str(self.jvm.tailrace.bench.RemoteFileSystem.link(self.conf).counts())
        return {name: int(value) for name, value in (pair.split("=") for pair in text.split())}


@pytest.fixture
def remote(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, "remote", tmp_path)


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    found = {name: value - before.get(name, 0) for name, value in after.items()}
    return {name: value for name, value in found.items() if value}


def test_operations_and_bytes_are_counted_and_waited_for(remote: Files) -> None:
    before, started = remote.counts(), time.monotonic()
    remote.write("a", b"x" * 50_000)
    assert remote.read("a") == b"x" * 50_000
    remote.system.rename(remote.path("a"), remote.path("b"))
    remote.system.mkdirs(remote.path("folder"))
    assert len(remote.system.listStatus(remote.path(""))) == 2
    assert remote.system.getFileStatus(remote.path("b")).getLen() == 50_000
    remote.system.delete(remote.path("b"), False)
    elapsed = time.monotonic() - started
    spent = difference(before, remote.counts())
    waited = spent.pop("waited_nanos") / 1e9
    assert spent.pop("bytes_written") == spent.pop("bytes_read") == 50_000
    assert spent == {
        "create": 1, "close": 1, "open": 1, "rename": 1, "mkdirs": 1, "list": 1, "status": 1,
        "delete": 1,
    }  # fmt: skip
    least = 8 * RTT + 100_000 / BYTES_PER_SECOND
    assert waited >= least * 0.99
    assert elapsed >= least * 0.99


def test_all_streams_share_the_bandwidth(remote: Files) -> None:
    from concurrent.futures import ThreadPoolExecutor

    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: remote.write(f"s{n}", b"y" * 25_000), range(4)))
    assert time.monotonic() - started >= 100_000 / BYTES_PER_SECOND * 0.99


def test_a_file_context_renames_atomically_in_one_operation(remote: Files) -> None:
    remote.write("one", b"1")
    remote.write("two", b"2")
    rename = remote.jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
    array = remote.jvm.java.lang.reflect.Array.newInstance(rename, 0)
    with pytest.raises(Py4JJavaError, match="exists already"):
        remote.context.rename(remote.path("one"), remote.path("two"), array)
    before = remote.counts()
    remote.context.rename(remote.path("one"), remote.path("three"), array)
    spent = difference(before, remote.counts())
    assert {name: n for name, n in spent.items() if name != "waited_nanos"} == {"rename": 1}
    assert remote.read("three") == b"1"


def test_writing_behind_is_seen_at_once_and_arrives(spark: SparkSession, tmp_path: Path) -> None:
    behind = Files(spark, "behind", tmp_path)
    (tmp_path / "state").mkdir()
    behind.write("state/1.delta", b"z" * 10_000)
    assert behind.read("state/1.delta") == b"z" * 10_000
    assert behind.system.getFileStatus(behind.path("state/1.delta")).getLen() == 10_000
    assert len(behind.system.listStatus(behind.path("state"))) == 1, "a listing waits for all"
    assert (tmp_path / "state" / "1.delta").read_bytes() == b"z" * 10_000
