"""Versions: a commit makes exactly the next one, and every retained one can be had again.

Spark may run a batch twice (a retried task, `foreachBatch` with two actions): loading N after N+1
was committed gives N, and the second commit of N+1 replaces the first.
"""

from __future__ import annotations

import shutil

import pytest
from support.expectations import (
    Capability,
    commit_all,
    contents,
    lacks,
    needs,
    refuses,
    state_at,
)
from support.fixtures import Opener
from support.harness import Provider
from support.stores import HDFS, ROCKSDB


def test_commit_returns_the_next_version(open_provider: Opener) -> None:
    provider = open_provider()
    for version in range(5):
        store = provider.load(version)
        assert store.version() == version
        store.put([f"k{version}"], [version])
        assert store.commit() == version + 1
        assert store.has_committed() is True
    assert len(state_at(provider, 5)) == 5


def test_a_commit_without_changes_makes_a_version(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, []) == 1
    assert commit_all(provider, 1, [(["a"], [1])]) == 2
    assert commit_all(provider, 2, []) == 3
    provider.close()
    fresh = open_provider()
    assert [state_at(fresh, version) for version in range(4)] == [
        {},
        {},
        {("a",): (1,)},
        {("a",): (1,)},
    ]


@pytest.mark.parametrize("provider_is_new", [False, True])
def test_every_earlier_version_loads_again(open_provider: Opener, provider_is_new: bool) -> None:
    provider = open_provider()
    expected: list[dict[tuple[str], tuple[int]]] = [{}]
    for version in range(8):
        store = provider.load(version)
        state = dict(expected[-1])
        store.put(["shared"], [version])
        store.put([f"k{version}"], [version])
        state[("shared",)] = (version,)
        state[(f"k{version}",)] = (version,)
        if version >= 3:
            store.remove([f"k{version - 3}"])
            del state[(f"k{version - 3}",)]
        assert store.commit() == version + 1
        expected.append(state)
    if provider_is_new:
        provider.close()
        provider = open_provider()
    for version in (8, 0, 3, 7, 1, 8, 2, 6, 5, 4):
        assert state_at(provider, version) == expected[version]
        store = provider.load(version)
        assert contents(store) == expected[version]
        store.abort()


def test_the_version_before_the_last_commit_loads_again(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1]), (["b"], [1])]) == 1
    store = provider.load(1)
    store.put(["a"], [2])
    store.remove(["b"])
    store.put(["c"], [2])
    assert store.commit() == 2

    again = provider.load(1)
    assert contents(again) == {("a",): (1,), ("b",): (1,)}
    assert again.get(["c"]) is None
    again.abort()
    assert state_at(provider, 2) == {("a",): (2,), ("c",): (2,)}


@pytest.mark.parametrize("provider_is_new", [False, True])
def test_a_second_commit_of_a_version_replaces_the_first(
    open_provider: Opener, provider_is_new: bool
) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    assert commit_all(provider, 1, [(["a"], [2]), (["first"], [2])]) == 2
    assert commit_all(provider, 1, [(["a"], [3]), (["second"], [3])]) == 2
    if provider_is_new:
        provider.close()
        provider = open_provider()
    assert state_at(provider, 2) == {("a",): (3,), ("second",): (3,)}
    assert commit_all(provider, 2, [(["next"], [4])]) == 3
    assert state_at(provider, 3) == {("a",): (3,), ("second",): (3,), ("next",): (4,)}
    assert state_at(provider, 1) == {("a",): (1,)}


def test_a_second_commit_may_come_from_another_provider(open_provider: Opener) -> None:
    first = open_provider()
    assert commit_all(first, 0, [(["a"], [1])]) == 1
    assert commit_all(first, 1, [(["first"], [2])]) == 2
    first.close()
    second = open_provider()
    assert commit_all(second, 1, [(["second"], [3])]) == 2
    second.close()
    assert state_at(open_provider(), 2) == {("a",): (1,), ("second",): (3,)}


def test_the_first_version_can_be_replaced(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["first"], [1])]) == 1
    assert commit_all(provider, 0, [(["second"], [2])]) == 1
    assert state_at(provider, 1) == {("second",): (2,)}
    provider.close()
    assert state_at(open_provider(), 1) == {("second",): (2,)}


def test_abort_restores(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1]), (["b"], [2])]) == 1
    store = provider.load(1)
    store.put(["a"], [9])
    store.remove(["b"])
    store.put(["c"], [9])
    store.abort()
    store.abort()
    assert store.has_committed() is False
    assert state_at(provider, 1) == {("a",): (1,), ("b",): (2,)}
    again = provider.load(1)
    assert contents(again) == {("a",): (1,), ("b",): (2,)}
    again.put(["d"], [4])
    assert again.commit() == 2
    provider.close()
    assert state_at(open_provider(), 2) == {("a",): (1,), ("b",): (2,), ("d",): (4,)}


def test_an_aborted_batch_leaves_no_version(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    store.abort()
    refuses(provider.load, 1)
    assert state_at(provider, 0) == {}


def test_uncommitted_changes_die_with_the_provider(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    provider.load(1).put(["a"], [2])
    provider.close()
    fresh = open_provider()
    assert state_at(fresh, 1) == {("a",): (1,)}
    refuses(fresh.load, 2)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_finished_store_refuses_updates(open_provider: Opener, end: str) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    getattr(store, end)()
    refuses(store.put, ["b"], [2])
    refuses(store.remove, ["a"])
    refuses(store.commit)
    assert state_at(provider, 1 if end == "commit" else 0) == (
        {("a",): (1,)} if end == "commit" else {}
    )


@needs(Capability.REFUSES_READS_AFTER_END)
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_finished_store_refuses_reads(open_provider: Opener, end: str) -> None:
    store = open_provider().load(0)
    store.put(["a"], [1])
    getattr(store, end)()
    refuses(store.get, ["a"])
    refuses(store.key_exists, ["a"])
    refuses(store.multi_get, [["a"]])
    refuses(store.iterate)


@needs(Capability.REFUSES_READS_AFTER_END)
def test_an_old_store_cannot_touch_the_new_one(open_provider: Opener) -> None:
    provider = open_provider()
    old = provider.load(0)
    old.abort()
    new = provider.load(0)
    new.put(["a"], [1])
    refuses(old.put, ["a"], [2])
    refuses(old.get, ["a"])
    refuses(old.commit)
    assert new.get(["a"]) == (1,)
    assert new.commit() == 1


def test_a_version_that_was_never_committed_is_refused(open_provider: Opener) -> None:
    provider = open_provider()
    refuses(provider.load, 1)
    refuses(provider.load_read, 3)
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    refuses(provider.load, 2)
    refuses(provider.load, -1)
    refuses(provider.load_read, -1)
    # After the refusals the provider is usable.
    assert commit_all(provider, 1, [(["b"], [2])]) == 2
    assert state_at(provider, 2) == {("a",): (1,), ("b",): (2,)}


def rocksdb_beside(opener: Opener) -> Provider:
    """A new RocksDB store in a folder of its own: its refusals are the model."""
    return opener.elsewhere(opener.directory.parent / "rocksdb", ROCKSDB)()


@pytest.mark.parametrize("version", [-1, 1, 7])
def test_a_version_that_is_refused_has_sparks_condition(
    open_provider: Opener, version: int
) -> None:
    """Spark's callers tell errors apart by it. HDFS has conditions of its own below the class."""
    model = rocksdb_beside(open_provider)
    expected = refuses(model.load, version).condition
    assert expected is not None and expected.startswith("CANNOT_LOAD_STATE_STORE.")
    for load in (open_provider().load, open_provider().load_read):
        found = refuses(load, version).condition
        if open_provider.kind is HDFS:
            assert found is not None and found.startswith("CANNOT_LOAD_STATE_STORE.")
        else:
            assert found == expected


@lacks(Capability.READS_DURING_BATCH)
def test_a_store_that_is_in_use_has_sparks_condition(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    error = refuses(provider.load, 0)
    assert error.condition == "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR"
    store.abort()


def test_a_commit_that_cannot_be_written_has_sparks_condition(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    shutil.rmtree(open_provider.directory, ignore_errors=True)
    open_provider.directory.write_text("in the way of the store's folder")
    error = refuses(store.commit)
    assert error.condition == "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT"
    store.abort()


def test_a_read_store_reads_and_is_released(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    reader = provider.load_read(1)
    assert reader.version() == 1
    assert reader.get(["a"]) == (1,)
    assert reader.get(["b"]) is None
    assert reader.multi_get([["b"], ["a"]]) == [None, (1,)]
    assert reader.iterate() == [(("a",), (1,))]
    reader.release()
    reader.release()
    assert commit_all(provider, 1, [(["b"], [2])]) == 2


def test_a_read_store_may_be_aborted(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    reader = provider.load_read(1)
    assert reader.get(["a"]) == (1,)
    reader.abort()
    assert commit_all(provider, 1, [(["b"], [2])]) == 2
    assert state_at(provider, 2) == {("a",): (1,), ("b",): (2,)}


def test_a_read_store_of_version_zero_is_empty(open_provider: Opener) -> None:
    assert state_at(open_provider(), 0) == {}


def test_a_read_store_upgraded_to_a_write_store(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1]), (["b"], [2])]) == 1
    reader = provider.load_read(1)
    assert reader.get(["a"]) == (1,)
    writer = provider.upgrade(reader, 1)
    assert contents(writer) == {("a",): (1,), ("b",): (2,)}
    writer.put(["a"], [3])
    # The operator below still reads through the store it opened.
    assert reader.get(["b"]) == (2,)
    writer.put(["c"], [4])
    assert writer.get(["a"]) == (3,)
    assert writer.commit() == 2
    assert state_at(provider, 2) == {("a",): (3,), ("b",): (2,), ("c",): (4,)}
    assert state_at(provider, 1) == {("a",): (1,), ("b",): (2,)}
    assert commit_all(provider, 2, [(["d"], [5])]) == 3


def test_an_upgraded_store_may_be_aborted(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    writer = provider.upgrade(provider.load_read(1), 1)
    writer.put(["a"], [2])
    writer.abort()
    assert state_at(provider, 1) == {("a",): (1,)}
    assert commit_all(provider, 1, [(["b"], [2])]) == 2


def test_another_provider_reads_while_a_batch_is_open(open_provider: Opener) -> None:
    writer, reader = open_provider(), open_provider()
    assert commit_all(writer, 0, [(["a"], [1])]) == 1
    store = writer.load(1)
    store.put(["a"], [2])
    store.put(["b"], [2])
    assert state_at(reader, 1) == {("a",): (1,)}
    assert store.commit() == 2
    assert state_at(reader, 1) == {("a",): (1,)}
    assert state_at(reader, 2) == {("a",): (2,), ("b",): (2,)}


@needs(Capability.READS_DURING_BATCH)
def test_the_committed_version_is_readable_while_a_batch_is_open(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    store = provider.load(1)
    store.put(["a"], [2])
    store.put(["b"], [2])
    reader = provider.load_read(1)
    assert contents(reader) == {("a",): (1,)}
    assert reader.get(["b"]) is None
    reader.release()
    assert store.get(["a"]) == (2,)
    assert store.commit() == 2
    assert state_at(provider, 2) == {("a",): (2,), ("b",): (2,)}


@lacks(Capability.READS_DURING_BATCH)
def test_the_open_batch_keeps_readers_out(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    store = provider.load(1)
    refuses(provider.load_read, 1)
    store.put(["b"], [2])
    assert store.commit() == 2


@needs(Capability.LOAD_EMPTY)
def test_a_version_can_start_empty(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    store = provider.load(1, load_empty=True)
    assert contents(store) == {}
    store.put(["b"], [2])
    assert store.commit() == 2
    provider.close()
    fresh = open_provider()
    assert state_at(fresh, 2) == {("b",): (2,)}
    assert state_at(fresh, 1) == {("a",): (1,)}


def test_a_forced_snapshot_changes_nothing_that_is_seen(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    store = provider.load(1, force_snapshot=True)
    store.put(["b"], [2])
    assert store.commit() == 2
    assert commit_all(provider, 2, [(["c"], [3])]) == 3
    provider.close()
    fresh = open_provider()
    assert state_at(fresh, 1) == {("a",): (1,)}
    assert state_at(fresh, 2) == {("a",): (1,), ("b",): (2,)}
    assert state_at(fresh, 3) == {("a",): (1,), ("b",): (2,), ("c",): (3,)}


def test_closing_twice_is_harmless(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    provider.close()
    provider.close()
    assert state_at(open_provider(), 1) == {("a",): (1,)}
