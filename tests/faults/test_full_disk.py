"""A disk that fills up: retried, and then an error with the file's name and the cause.

Problem: Hadoop's local file system reports a full disk with a java.lang.Error. No handler of
IOException catches it, it kills the thread that writes, and the query waits for ever.
Answer: that error at every file that is written (tests/jvm/ScriptedFileSystem.scala), and a disk
that is really full: a small one in memory, mounted for the test.
Invariant: a disk that has room again costs retries and nothing else; one that stays full fails the
query with a clear error, publishes nothing, and after the repair the restart is right.
"""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from support.counting import Counting, eventually
from support.faults import PACK, FileFaults
from support.fixtures import Opener
from support.harness import Shape
from support.queries import Query, QueryHarness
from support.stores import TAILRACE_CONF

COMMITS = r"/commits/\.?\d+"
OFFSETS = r"/offsets/\.?\d+"
FULL = "No space left on device"


def failure(query: StreamingQuery) -> str:
    return str(eventually(lambda: query.exception(), "the query to fail", seconds=40))


def assert_clear(text: str, name: str) -> None:
    for part in (name, FULL, "Cause:", "Remedy:"):
        assert part in text


def leftovers(counting: Counting) -> list[str]:
    return [name for name in counting.files_below() if name.endswith(".tmp")]


# ---- as Hadoop says it, at every file


@pytest.mark.parametrize("scheme", ["file", "scripted"])
@pytest.mark.parametrize("pattern", [PACK, COMMITS, OFFSETS])
def test_a_disk_that_has_room_again(
    faults: FileFaults, tmp_path: Path, scheme: str, pattern: str
) -> None:
    counting = Counting(tmp_path, scheme=scheme)
    query = counting.start(faults.session())
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.fill(pattern, 3, times=3)
        counting.await_published(counting.run_batch(query, "oak fir"))
        counting.await_published(counting.run_batch(query, "elm ash"))
        failed = [line for line in faults.record if line.startswith("failed write")]
    finally:
        query.stop()
    assert len(failed) == 3
    counting.assert_right()
    assert counting.calls == [0, 1, 2]
    assert leftovers(counting) == []


@pytest.mark.parametrize("scheme", ["file", "scripted"])
def test_a_disk_that_stays_full(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    """For log entries, which the driver repeats for a minute, see tests/engine/test_ledger.py."""
    counting = Counting(tmp_path, scheme=scheme)
    query = counting.start(faults.session(retryTimeout="1s"))
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.fill(PACK, 3)
        counting.add("oak fir")
        counting.add("ash")
        text = failure(query)
    finally:
        query.stop()
    assert_clear(text, f"{counting.checkpoint}/state/tailrace/2-")
    assert counting.published == [0]
    faults.clear()
    counting.add("elm")
    assert counting.problems_after(faults.session()) == []
    assert counting.state(faults.session()) == counting.expected


# ---- for real


class SmallDisk:
    """A disk of one megabyte; without the right to mount one, the scripted file system's error."""

    def __init__(self, folder: Path, faults: FileFaults) -> None:
        self.folder = folder
        self._faults = faults
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tailrace-test", str(folder)]
        self.is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        if not self.is_mounted:
            warnings.warn("No disk can be mounted here: the error is scripted.", stacklevel=2)

    def fill(self) -> None:
        if not self.is_mounted:
            self._faults.fill(f"^{self.folder}/", 3)
            return
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            for size in (4096, 1):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError as error:
                    assert FULL in str(error)
        # A file system of pages has room in the last one of a file; new files have none.
        assert os.statvfs(self.folder).f_bavail == 0

    def make_room(self) -> None:
        if self.is_mounted:
            (self.folder / "filler").unlink()
        else:
            self._faults.clear()

    def end(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path, faults: FileFaults) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", faults)
    yield disk
    disk.end()


def on_disk(tmp_path: Path, disk: SmallDisk) -> Counting:
    return Counting(tmp_path, checkpoint=disk.folder / "checkpoint")


def test_a_full_disk_that_is_tidied_up(faults: FileFaults, tmp_path: Path, disk: SmallDisk) -> None:
    counting = on_disk(tmp_path, disk)

    def filling(batch: DataFrame, number: int) -> None:
        """Fills the disk when Spark has written the source's log, whose writes are not repeated."""
        counting.keep(batch, number)
        if number == 1:
            disk.fill()

    query = counting.start(faults.session(), sink=filling)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        counting.run_batch(query, "oak fir")
        time.sleep(0.5)  # nothing depends on it: the longer, the more retries
        assert counting.published == [0]
        disk.make_room()
        counting.await_published(1)
        counting.await_published(counting.run_batch(query, "elm ash"))
    finally:
        query.stop()
    counting.assert_right()
    assert counting.calls == [0, 1, 2]


@pytest.mark.parametrize("commit", ["async", "sync"])
def test_a_full_disk(faults: FileFaults, tmp_path: Path, disk: SmallDisk, commit: str) -> None:
    counting = on_disk(tmp_path, disk)
    session = faults.session(retryTimeout="1s", commit=commit)
    query = counting.start(session)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        disk.fill()
        counting.add("oak fir")
        counting.add("ash")
        text = failure(query)
    finally:
        query.stop()
    assert FULL in text
    assert str(counting.checkpoint) in text
    assert counting.published == [0]
    disk.make_room()
    assert counting.problems_after(session) == []
    assert counting.state(session) == counting.expected


def test_no_room_for_copies(queries: QueryHarness, open_provider: Opener, disk: SmallDisk) -> None:
    """Copies are a matter of speed: the query goes on without."""
    confs = {TAILRACE_CONF + "localDir": str(disk.folder / "local")}
    shape = Shape(key="k LONG", value="v STRING")
    query = Query(queries, open_provider, shape, partitions=1, confs=confs)
    query.commit(0, [([1], ["x" * 5000])])
    disk.fill()
    query.commit(1, [([2], ["x" * 5000])], force_snapshot=True)
    query.commit(2, [([3], ["x" * 5000])])
    query.stop()
    copies = [path.name for path in (disk.folder / "local").glob("*/*")]
    store = open_provider(shape, confs=confs).load(3)
    assert len(store.iterate()) == 3
    store.abort()
    if disk.is_mounted:
        assert [name.partition("-")[0] for name in copies] == ["1"], "no copy is there by half"
