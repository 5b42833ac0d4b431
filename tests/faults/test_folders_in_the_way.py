"""Folders in a checkpoint that have the name of a file: nothing of ours, and never deleted.

Problem: a path that is listed and deleted by name may be a folder, with all that is in it; and a
file that is renamed onto a folder may end up inside of it, where no reader finds it again.
Answer: folders with the names of packs, changes files, snapshots and log entries, with a file in
each; on a local disk and on a file system that is not local.
Invariant: the file survives. A folder in the way of a write or a read is named in an error.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.counting import Counting, eventually
from support.expectations import commit_all, refuses, state_at
from support.faults import CONFS, FileFaults
from support.fixtures import Opener
from support.harness import Shape, StoreError
from support.stores import TAILRACE_CONF

SHAPE = Shape(key="k LONG", value="v LONG")
SCHEMES = ["file", "scripted"]


def occupy(path: Path) -> Path:
    """A folder in the place of a file, and a file in it that must survive."""
    path.mkdir(parents=True)
    letter = path / "letter"
    letter.write_text("precious")
    return letter


def assert_left(letter: Path) -> None:
    assert letter.read_text() == "precious"
    assert [path.name for path in letter.parent.iterdir()] == ["letter"]


def assert_named(error: StoreError, path: Path) -> None:
    assert error.class_name.endswith("FolderInTheWay")
    for part in (f"{path} is a folder", "Cause:", "Remedy:"):
        assert part in str(error)


class Checkpoint:
    """A store's checkpoint on the local disk, by way of one of the two file systems."""

    def __init__(self, opener: Opener, scheme: str) -> None:
        directory = opener.directory
        if scheme == "scripted":
            directory = Path(f"scripted:{directory}")
        self.opener = opener.elsewhere(directory)
        self.folder = opener.directory / "0" / "0"
        self.confs = {**CONFS, TAILRACE_CONF + "maxDeltas": "2"} if scheme == "scripted" else {}


@pytest.fixture(params=SCHEMES)
def checkpoint(
    open_provider: Opener, faults: FileFaults, request: pytest.FixtureRequest
) -> Checkpoint:
    del faults  # its classes are needed
    return Checkpoint(open_provider, request.param)


# ---- a store's own files


@pytest.mark.parametrize("kind_of_file", ["changes", "snapshot"])
def test_in_the_way_of_a_write(checkpoint: Checkpoint, kind_of_file: str) -> None:
    provider = checkpoint.opener(SHAPE, confs=checkpoint.confs)
    commit_all(provider, 0, [([1], [1])])
    path = checkpoint.folder / f"2.{kind_of_file}.tr"
    letter = occupy(path)
    if kind_of_file == "changes":
        store = provider.load(1)
        store.put([2], [2])
        assert_named(refuses(store.commit), path)
        store.abort()
        letter.unlink()
        path.rmdir()
        assert commit_all(provider, 1, [([2], [2])]) == 2
    else:
        store = provider.load(1, load_empty=True)  # with a snapshot before the commit returns
        store.put([2], [2])
        assert_named(refuses(store.commit), path)
        assert_left(letter)
        store.abort()
    assert not list(checkpoint.folder.glob(f".2.{kind_of_file}.*.tmp"))
    provider.close()


@pytest.mark.parametrize("kind_of_file", ["changes", "snapshot"])
def test_in_the_place_of_a_file(checkpoint: Checkpoint, kind_of_file: str) -> None:
    provider = checkpoint.opener(SHAPE, confs=checkpoint.confs)
    for version in range(3):
        commit_all(provider, version, [([version], [version])])
    provider.close()
    (checkpoint.folder / "3.changes.tr").unlink()
    for file in checkpoint.folder.glob("*.snapshot.tr"):
        file.unlink()
    path = checkpoint.folder / f"3.{kind_of_file}.tr"
    letter = occupy(path)
    provider = checkpoint.opener(SHAPE, confs=checkpoint.confs)
    assert_named(refuses(provider.load, 3), path)
    assert_left(letter)
    assert state_at(provider, 2) == {(0,): (0,), (1,): (1,)}
    provider.close()


def test_maintenance_leaves_them(checkpoint: Checkpoint) -> None:
    confs = {
        **checkpoint.confs,
        TAILRACE_CONF + "maxDeltas": "2",
        "spark.sql.streaming.minBatchesToRetain": "1",
    }
    provider = checkpoint.opener(SHAPE, confs=confs)
    commit_all(provider, 0, [([0], [0])])
    letters = [
        occupy(checkpoint.folder / name)
        for name in ("0.changes.tr", "0.snapshot.tr", ".1.changes.tr.x.tmp")
    ]
    for version in range(1, 8):
        commit_all(provider, version, [([version], [version])])

    def cleaned() -> bool:
        provider.maintain()
        return not (checkpoint.folder / "1.changes.tr").exists()

    eventually(cleaned, "the first changes file to be deleted")
    provider.close()
    for letter in letters:
        assert_left(letter)


# ---- packs and log entries


@pytest.mark.parametrize("scheme", SCHEMES)
def test_packs_of_a_run_that_crashed(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    """Before its first batch a run deletes the packs that are not its own: files only."""
    counting = Counting(tmp_path, scheme=scheme)
    counting.add("oak elm")
    counting.add("oak fir")
    session = faults.session()
    assert counting.problems_after(session) == []
    counting.await_published(1)
    (counting.checkpoint / "commits" / "1").unlink()  # as after a crash before it
    packs = counting.checkpoint / "state" / "tailrace"
    letter = occupy(packs / f"2-{7:016x}.pack.tr")
    other = packs / f"2-{8:016x}.pack.tr"
    other.write_bytes(b"half of a pack")
    assert counting.problems_after(session) == []
    counting.await_published(1)
    assert counting.state(session) == counting.expected
    assert not other.exists()
    assert_left(letter)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_in_the_place_of_a_pack(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    counting = Counting(tmp_path, scheme=scheme)
    counting.add("oak elm")
    session = faults.session(retryTimeout="600s")
    assert counting.problems_after(session) == []
    counting.await_published(0)
    (pack,) = counting.packs(1)
    kept = pack.rename(tmp_path / "pack")
    letter = occupy(pack)
    counting.add("oak fir")
    (problem,) = counting.problems_after(session)
    assert f"{pack} is a folder" in problem
    assert_left(letter)
    letter.unlink()
    pack.rmdir()
    kept.rename(pack)
    assert counting.problems_after(session) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_in_the_way_of_a_pack(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    """The same input gives the same pack: its name is known from a twin. It is not retried."""
    twin = Counting(tmp_path / "twin", scheme=scheme)
    counting = Counting(tmp_path / "one", scheme=scheme)
    session = faults.session(retryTimeout="600s")
    for each in (twin, counting):
        each.add("oak elm")
        assert each.problems_after(session) == []
        each.await_published(0)
    twin.add("oak fir")
    assert twin.problems_after(session) == []
    twin.await_published(1)
    (pack,) = twin.packs(2)
    path = counting.packs(1)[0].with_name(pack.name)
    letter = occupy(path)
    counting.add("oak fir")
    counting.add("ash")  # the batch that meets the failure
    (problem,) = counting.problems_after(session)
    assert f"{path} is a folder" in problem
    assert counting.published == [0]
    assert_left(letter)
    letter.unlink()
    path.rmdir()
    assert counting.problems_after(session) == []
    assert counting.state(session) == counting.expected


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_in_the_place_of_a_log_entry(
    faults: FileFaults, tmp_path: Path, scheme: str, log: str
) -> None:
    """It would be taken for a batch."""
    counting = Counting(tmp_path, scheme=scheme)
    counting.add("oak elm")
    session = faults.session()
    assert counting.problems_after(session) == []
    counting.await_published(0)
    path = counting.checkpoint / log / "1"
    letter = occupy(path)
    counting.add("oak fir")
    counting.add("ash")
    (problem,) = counting.problems_after(session)
    assert f"{path} is a folder" in problem
    assert_left(letter)
    letter.unlink()
    path.rmdir()
    assert counting.problems_after(session) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("folder", "suffix"),
    [("offsets", ""), ("sources/0", ".compact"), ("state/0/_metadata/v2", "")],
)
def test_what_spark_deletes(
    spark: SparkSession,
    faults: FileFaults,
    tmp_path: Path,
    scheme: str,
    folder: str,
    suffix: str,
) -> None:
    """An entry of a log that is a folder stays; a temporary checkpoint is deleted as a whole."""
    jvm = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in CONFS.items():
        conf.set(name, value)
    log = tmp_path / "checkpoint" / folder
    letter = occupy(log / f"0{suffix}")
    (log / f"1{suffix}").write_text("v1")

    def path(text: str) -> object:
        return jvm.org.apache.hadoop.fs.Path(f"{scheme}:{tmp_path}/checkpoint{text}")

    manager = jvm.tailrace.spark.TailraceFileManager(path(""), conf)
    for number in range(3):
        manager.delete(path(f"/{folder}/{number}{suffix}"))
    assert_left(letter)
    assert [entry.name for entry in log.iterdir()] == [f"0{suffix}"]
    manager.delete(path(""))
    assert not (tmp_path / "checkpoint").exists()
