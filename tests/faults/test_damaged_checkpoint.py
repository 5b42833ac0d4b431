"""A checkpoint that is damaged, foreign, newer or out of reach: one clear error, no wrong answer.

Every error names the file, the cause and a remedy, and no file is touched on the way.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.damage import (
    ENTRIES,
    ERRORS,
    SHAPE,
    append_bytes,
    assert_clear,
    contents_of,
    cut_to_header,
    empty_a_block,
    flip_first_bit,
    folder_of,
    load_error,
    to_notes,
    to_nothing,
    truncate,
    write_three_versions,
)
from support.expectations import commit_all, state_at
from support.fixtures import Opener, wait_for
from support.harness import Provider, Shape, StoreError
from support.seeds import SEED
from support.stores import HDFS, ROCKSDB, TAILRACE_CLASS

from tailrace.options import CONF_PREFIX, describe

# Below the store, a file system that fails when a test says so (tests/jvm/FaultyFileSystem.scala).
FAULTY = {
    "fs.file.impl": "org.apache.spark.sql.tailrace.testing.FaultyFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@pytest.mark.parametrize("damage", [truncate, cut_to_header, append_bytes, empty_a_block])
def test_damaged_file_is_named(open_provider: Opener, damage: Callable[[Path], None]) -> None:
    folder = write_three_versions(open_provider)
    damage(folder / "2.changes.tr")
    assert_clear(load_error(open_provider), "CorruptFile", "2.changes.tr")


def test_no_flipped_bit_goes_unnoticed(open_provider: Opener) -> None:
    """Two hundred random single-bit flips, anywhere in the file: all are refused."""
    folder = write_three_versions(open_provider)
    path = folder / "2.changes.tr"
    intact = path.read_bytes()
    print(f"seed {SEED}: TAILRACE_SEED={SEED} replays this")
    chooser = random.Random(SEED)
    for position in chooser.sample(range(len(intact) * 8), 200):
        damaged = bytearray(intact)
        damaged[position // 8] ^= 1 << (position % 8)
        path.write_bytes(bytes(damaged))
        with pytest.raises(StoreError) as caught:
            open_provider(SHAPE).load(3)
        assert caught.value.class_name.startswith(ERRORS), f"bit {position}: {caught.value}"
        assert "2.changes.tr" in str(caught.value)
    path.write_bytes(intact)
    assert len(state_at(open_provider(SHAPE), 3)) == 500


def test_missing_file_is_named(open_provider: Opener) -> None:
    folder = write_three_versions(open_provider)
    (folder / "2.changes.tr").unlink()
    assert_clear(load_error(open_provider), "MissingFile", "2.changes.tr")


def test_version_that_never_was(open_provider: Opener) -> None:
    write_three_versions(open_provider)
    error = load_error(open_provider, version=7)
    assert_clear(error, "MissingFile", "7.changes.tr")
    assert "1 to 3" in str(error)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (to_nothing, "It is empty."),
        (flip_first_bit, "does not begin as a state file does"),
        (to_notes, "does not begin as a state file does"),
    ],
)
def test_file_that_does_not_begin_as_ours_is_damaged(
    open_provider: Opener, damage: Callable[[Path], None], said: str
) -> None:
    """No other store uses our names: the remedy is to restore the file, not another store."""
    folder = write_three_versions(open_provider)
    damage(folder / "3.changes.tr")
    error = load_error(open_provider)
    assert_clear(error, "CorruptFile", "3.changes.tr")
    assert said in str(error)
    assert "providerClass" not in str(error)


def test_file_that_does_not_begin_as_ours_beside_those_of_another_store(
    open_provider: Opener,
) -> None:
    folder = write_three_versions(open_provider)
    to_notes(folder / "3.changes.tr")
    (folder / "3.delta").write_bytes(b"of another store")
    error = load_error(open_provider)
    assert_clear(error, "ForeignFile", "3.changes.tr")
    assert "Spark's HDFS-backed state store" in str(error)


def test_newer_format(open_provider: Opener) -> None:
    folder = write_three_versions(open_provider)
    path = folder / "3.changes.tr"
    data = bytearray(path.read_bytes())
    data[8:10] = (99).to_bytes(2, "big")
    path.write_bytes(bytes(data))
    assert_clear(load_error(open_provider), "NewerFormat", "3.changes.tr")


def test_file_of_another_partition(open_provider: Opener) -> None:
    write_three_versions(open_provider)
    other = open_provider(SHAPE, partition=1)
    commit_all(other, 0, ENTRIES)
    other.close()
    shutil.copy(
        open_provider.directory / "0" / "1" / "1.changes.tr",
        folder_of(open_provider) / "1.changes.tr",
    )
    assert_clear(load_error(open_provider), "ForeignFile", "1.changes.tr")


def test_file_renamed_to_another_version(open_provider: Opener) -> None:
    folder = write_three_versions(open_provider)
    shutil.copy(folder / "2.changes.tr", folder / "3.changes.tr")
    assert_clear(load_error(open_provider), "CorruptFile", "3.changes.tr")


def test_file_of_a_different_run_of_the_batch(open_provider: Opener) -> None:
    """Version 2 is replaced by another run's after version 3 was built on the first."""
    folder = write_three_versions(open_provider)
    third = (folder / "3.changes.tr").read_bytes()
    provider = open_provider(SHAPE)
    commit_all(provider, 1, [([1], [-1])])
    provider.close()
    (folder / "3.changes.tr").write_bytes(third)
    assert_clear(load_error(open_provider), "BrokenLineage", "2.changes.tr")


def test_snapshot_of_a_different_run_is_passed_over(open_provider: Opener) -> None:
    """A snapshot of a run that was replaced stays behind; it must not be read."""
    provider = open_provider(SHAPE)
    commit_all(provider, 0, ENTRIES)
    store = provider.load(1, force_snapshot=True)
    store.put([1], [-1])
    store.commit()
    wait_for(folder_of(open_provider) / "2.snapshot.tr")
    provider.close()
    again = open_provider(SHAPE)
    commit_all(again, 1, [([2], [-2])])
    again.close()
    state = state_at(open_provider(SHAPE), 2)
    assert state[(1,)] == (1,)
    assert state[(2,)] == (-2,)


@pytest.mark.parametrize("other", [HDFS, ROCKSDB], ids=lambda kind: kind.name)
def test_checkpoint_of_another_store(open_provider: Opener, other: object) -> None:
    writer = Provider(
        open_provider.harness,
        other.class_name,  # type: ignore[attr-defined]
        open_provider.directory,
        SHAPE,
        confs=other.confs,  # type: ignore[attr-defined]
    )
    commit_all(writer, 0, ENTRIES)
    writer.maintain()
    writer.close()
    error = load_error(open_provider, version=1)
    assert error.class_name == ERRORS + "ForeignFile", str(error)
    assert "Spark's" in str(error)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (Shape(key="k STRING", value="v LONG"), "the key was (bigint) and is now (string)"),
        (Shape(key="k LONG", value="v LONG, w LONG"), "the value was (bigint) and is now (bigint,"),
    ],
)
def test_schema_that_does_not_fit(open_provider: Opener, shape: Shape, said: str) -> None:
    write_three_versions(open_provider)
    with pytest.raises(StoreError) as caught:
        open_provider(shape).load(3)
    assert_clear(caught.value, "SchemaMismatch", str(folder_of(open_provider)))
    assert said in str(caught.value)


def test_folder_that_cannot_be_written(open_provider: Opener) -> None:
    """A file stands where the store's folder would go: root may write anywhere, but not that."""
    open_provider.directory.mkdir(parents=True)
    (open_provider.directory / "0").write_text("in the way")
    provider = open_provider(SHAPE)
    store = provider.load(0)
    store.put([1], [1])
    with pytest.raises(StoreError) as caught:
        store.commit()
    assert_clear(caught.value, "WriteFailed", "1.changes.tr")
    store.abort()
    (open_provider.directory / "0").unlink()
    assert commit_all(provider, 0, ENTRIES) == 1
    assert len(state_at(provider, 1)) == 500


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("full", "No space left on device"),
        ("full, as Hadoop says it", "No space left on device"),
        ("forbidden", "Permission denied"),
    ],
)
def test_disk_that_refuses_the_write(open_provider: Opener, fault: str, said: str) -> None:
    """The commit fails with the file's name and the cause; the batch can be done again."""
    provider = open_provider(SHAPE, confs=FAULTY)
    assert commit_all(provider, 0, ENTRIES) == 1
    store = provider.load(1)
    store.put([1], [-1])
    before = contents_of(folder_of(open_provider))
    open_provider.harness.call("fault", kind=fault)
    try:
        with pytest.raises(StoreError) as caught:
            store.commit()
    finally:
        open_provider.harness.call("fault", kind="none")
    assert_clear(caught.value, "WriteFailed", "2.changes.tr")
    assert said in str(caught.value)
    assert contents_of(folder_of(open_provider)) == before
    store.abort()
    assert state_at(provider, 1)[(1,)] == (1,)
    assert commit_all(provider, 1, [([1], [-2])]) == 2
    provider.close()
    assert state_at(open_provider(SHAPE, confs=FAULTY), 2)[(1,)] == (-2,)


@pytest.mark.parametrize("fault", ["unreadable", "broken"])
def test_disk_that_refuses_the_read(open_provider: Opener, fault: str) -> None:
    write_three_versions(open_provider)
    provider = open_provider(SHAPE, confs=FAULTY)
    open_provider.harness.call("fault", kind=fault)
    try:
        with pytest.raises(StoreError) as caught:
            provider.load(3)
    finally:
        open_provider.harness.call("fault", kind="none")
    assert_clear(caught.value, "UnreadableFile", "3.changes.tr")
    assert len(state_at(provider, 3)) == 500


def test_option_out_of_range_is_named(open_provider: Opener) -> None:
    prefix = "spark.sql.streaming.stateStore.tailrace."
    for name, value in (("compression", "gzip"), ("snapshotRatio", "-1"), ("maxDeltas", "none")):
        with pytest.raises(StoreError) as caught:
            open_provider(SHAPE, confs={prefix + name: value})
        assert caught.value.class_name == ERRORS + "InvalidOption"
        assert prefix + name in str(caught.value)
        assert value in str(caught.value)
    assert open_provider.kind.class_name == TAILRACE_CLASS


@pytest.mark.parametrize(
    ("slip", "meant"), [("memroyLimit", "memoryLimit"), ("max_deltas", "maxDeltas")]
)
def test_misspelt_option_is_refused(open_provider: Opener, slip: str, meant: str) -> None:
    prefix = "spark.sql.streaming.stateStore.tailrace."
    with pytest.raises(StoreError) as caught:
        open_provider(SHAPE, confs={prefix + slip: "8"})
    assert_clear(caught.value, "UnknownOption", prefix + slip)
    assert f"Did you mean {prefix}{meant}?" in str(caught.value)


def test_engine_and_package_know_the_same_options(spark: SparkSession) -> None:
    names = spark._jvm.tailrace.spark.StoreOptions.names()  # type: ignore[union-attr]
    known = {CONF_PREFIX + names.apply(index) for index in range(names.size())}
    assert known == {option.conf for option in describe()}


def test_memory_limit_is_an_error_and_not_a_crash(open_provider: Opener) -> None:
    limit = {"spark.sql.streaming.stateStore.tailrace.memoryLimit": "3m"}
    try:
        provider = open_provider(SHAPE, confs=limit)
        store = provider.load(0)
        with pytest.raises(StoreError) as caught:
            store.put_all([([key], [key]) for key in range(100_000)])
        assert_clear(caught.value, "MemoryExhausted", "memory_limit")
        store.abort()
    finally:
        open_provider(SHAPE)  # restores the process's limit
