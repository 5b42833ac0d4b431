"""Packs are as in FORMAT.md, and a store is loaded from them rightly or not at all.

Problem: a pack holds the changes of many stores; a fault in one must neither go unnoticed nor take
the others with it.
Answer: real packs, written by the session's own pipeline. Their bytes are compared with golden ones
and read by a second reader that was written from FORMAT.md alone; then they are cut, changed,
renamed and mixed up, and stores are loaded from them.
Invariant: a load gives the right state or an error that names the file; it never changes a file.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support import statefile
from support.expectations import commit_all, state_at
from support.fixtures import Opener, wait_for, wait_until
from support.harness import Row, Shape, StoreError
from support.queries import Query, QueryHarness
from support.seeds import SEED

ERRORS = "tailrace.errors."
SHAPE = Shape(key="k LONG", value="v LONG")
PLAIN = {"spark.sql.streaming.stateStore.tailrace.compression": "none"}
NAMED = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
SYNCHRONOUS = {"spark.sql.streaming.stateStore.tailrace.commit": "sync"}

# The index of the first batch's pack: the key 7 with 42 in partition 0, 8 with 43 in partition 1.
GOLDEN_NAME = "1-34df27e58dfe6ee4.pack.tr"
GOLDEN_INDEX = bytes.fromhex(
    "5441494c52414345"  # TAILRACE
    "00010300"  # format 1, a pack, nothing
    "0000006a"  # index length
    "0000000000000001"  # version
    "00000002"  # two entries
    "0000000b302f302f64656661756c74"  # store 0/0/default
    "91cf8d2f26916849"  # its lineage, as in its changes file
    "0000000000000000"  # the parent is the empty state
    "0000000000000000"  # the first part begins behind the index
    "00000000000000b9"  # its length
    "0000000b302f312f64656661756c74"  # store 0/1/default
    "455727124b7ac814"  # its lineage
    "0000000000000000"
    "00000000000000b9"  # the second part begins behind the first
    "00000000000000b9"
)


def entries_of(partition: int, batch: int) -> list[tuple[list[int], list[int]]]:
    return [([key], [key * 100 + batch]) for key in range(partition, 60, 2) if key >= batch * 10]


def state_after(partition: int, batches: int) -> dict[Row, Row]:
    state: dict[Row, Row] = {}
    for batch in range(batches):
        state |= {(key,): (value,) for (key,), (value,) in entries_of(partition, batch)}
    return state


def write_three_batches(harness: QueryHarness, opener: Opener) -> list[Path]:
    """Two stores through three batches; returns the packs of the versions 1, 2 and 3."""
    query = Query(harness, opener, SHAPE)
    packs = [query.commit(batch, entries_of(0, batch), entries_of(1, batch)) for batch in range(3)]
    query.stop()
    return packs


def files_below(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def load_error(opener: Opener, version: int = 3, partition: int = 0) -> StoreError:
    """Loads with a new provider, asserts that it fails and that nothing on disk has changed."""
    before = files_below(opener.directory)
    with pytest.raises(StoreError) as caught:
        opener(SHAPE, partition=partition).load(version)
    assert files_below(opener.directory) == before
    return caught.value


def assert_clear(error: StoreError, kind: str, file: str) -> None:
    text = str(error)
    assert error.class_name == ERRORS + kind, text
    assert file in text
    assert "Cause:" in text
    assert "Remedy:" in text


# ---- bytes


def test_a_pack_has_the_golden_bytes(queries: QueryHarness, open_provider: Opener) -> None:
    query = Query(queries, open_provider, SHAPE, confs=PLAIN)
    pack = query.commit(0, [([7], [42])], [([8], [43])])
    query.stop()
    check = struct.pack(">I", statefile.crc32c(GOLDEN_INDEX))
    data = pack.read_bytes()
    assert data[: len(GOLDEN_INDEX) + 4].hex() == (GOLDEN_INDEX + check).hex()
    assert pack.name == GOLDEN_NAME

    # The parts are, byte for byte, the changes files of stores that commit by themselves.
    parts = b""
    for partition, (key, value) in enumerate([([7], [42]), ([8], [43])]):
        alone = open_provider(SHAPE, partition=partition, confs={**PLAIN, **SYNCHRONOUS})
        commit_all(alone, 0, [(key, value)])
        parts += (open_provider.directory / "0" / str(partition) / "1.changes.tr").read_bytes()
    assert data[len(GOLDEN_INDEX) + 4 :].hex() == parts.hex()


def test_a_pack_reads_back_by_the_grammar(queries: QueryHarness, open_provider: Opener) -> None:
    query = Query(queries, open_provider, SHAPE, partitions=3, confs=PLAIN)
    first = statefile.read_pack(query.commit(0, [([1], [10])], [], [([3], [30]), ([4], [40])]))
    second = statefile.read_pack(query.commit(1, [([1], [11])], [([2], [20])], []))
    query.stop()
    stores = ["0/0/default", "0/1/default", "0/2/default"]
    assert [entry.store for entry in first.entries] == stores
    for pack in (first, second):
        for entry in pack.entries:
            part = statefile.decode(pack.parts[entry.store])
            assert (part.kind, part.version, part.store) == ("changes", pack.version, entry.store)
            assert (part.lineage, part.parent_lineage) == (entry.lineage, entry.parent_lineage)
    assert [len(statefile.decode(first.parts[store]).entries) for store in stores] == [1, 0, 2]
    parents = {entry.store: entry.parent_lineage for entry in second.entries}
    assert parents == {entry.store: entry.lineage for entry in first.entries}


def test_a_packs_name_is_a_digest_of_what_is_in_it(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """The same changes give the same name, whichever run they are of; others give another."""

    def name_of(value: int) -> str:
        query = Query(queries, open_provider, SHAPE)
        pack = query.commit(0, [([1], [value]), ([2], [20])], [([3], [30])])
        query.stop()
        return pack.name

    first = name_of(10)
    assert name_of(10) == first
    assert name_of(11) != first


def test_a_batch_is_one_file_whatever_the_number_of_its_stores(
    queries: QueryHarness, open_provider: Opener
) -> None:
    query = Query(queries, open_provider, SHAPE, partitions=5)
    for batch in range(3):
        query.commit(batch, *([([partition], [batch])] for partition in range(5)))
    query.stop()
    found = sorted(path.name.partition("-")[0] for path in query.packs.iterdir())
    assert found == ["1", "2", "3"]
    own = [path for path in open_provider.directory.rglob("*.tr") if path.parent != query.packs]
    assert own == [], "the stores' own folders have snapshots only"


def test_a_folder_that_cannot_be_made_is_named(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """Spark's state reader looks for a store's folder, though all changes are in packs."""
    open_provider.directory.mkdir(parents=True)
    (open_provider.directory / "0").write_text("in the way")
    query = Query(queries, open_provider, SHAPE, partitions=1)
    with pytest.raises(StoreError) as caught:
        query.apply(0, [([1], [10])])
    assert_clear(caught.value, "WriteFailed", str(open_provider.directory / "0" / "0"))


# ---- loading


def test_every_store_is_loaded_from_its_parts(queries: QueryHarness, open_provider: Opener) -> None:
    write_three_batches(queries, open_provider)
    for partition in (0, 1):
        for version in (1, 2, 3):
            store = open_provider(SHAPE, partition=partition)
            assert state_at(store, version) == state_after(partition, version)


def test_a_damaged_part_is_the_trouble_of_its_store_alone(
    queries: QueryHarness, open_provider: Opener
) -> None:
    pack = write_three_batches(queries, open_provider)[1]
    entry = statefile.read_pack(pack).entries[0]
    data = bytearray(pack.read_bytes())
    data[-entry.length * 2 + 150] ^= 1
    pack.write_bytes(bytes(data))
    assert_clear(load_error(open_provider, partition=0), "CorruptFile", pack.name)
    assert state_at(open_provider(SHAPE, partition=1), 3) == state_after(1, 3)


@pytest.mark.parametrize("kept", ["a letter", "preamble", "half an index", "index", "half a part"])
def test_a_pack_that_was_cut_short_is_named(
    queries: QueryHarness, open_provider: Opener, kept: str
) -> None:
    pack = write_three_batches(queries, open_provider)[1]
    data = pack.read_bytes()
    index = len(statefile.read_pack(pack).index)
    lengths = {
        "a letter": 9,
        "preamble": 16,
        "half an index": index // 2,
        "index": index,
        "half a part": index + 60,
    }
    pack.write_bytes(data[: lengths[kept]])
    assert_clear(load_error(open_provider), "CorruptFile", pack.name)


def test_an_empty_pack_is_named(queries: QueryHarness, open_provider: Opener) -> None:
    pack = write_three_batches(queries, open_provider)[1]
    pack.write_bytes(b"")
    error = load_error(open_provider)
    assert_clear(error, "CorruptFile", pack.name)
    assert "It is empty." in str(error)


def test_bytes_behind_the_parts_are_never_read(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """Some file systems count more bytes than were written."""
    pack = write_three_batches(queries, open_provider)[1]
    pack.write_bytes(pack.read_bytes() + b"more")
    assert state_at(open_provider(SHAPE), 3) == state_after(0, 3)


def test_no_flipped_bit_gives_a_wrong_answer(queries: QueryHarness, open_provider: Opener) -> None:
    """A hundred and fifty random single-bit flips, anywhere in a pack of two stores."""
    pack = write_three_batches(queries, open_provider)[1]
    intact = pack.read_bytes()
    print(f"seed {SEED}: TAILRACE_SEED={SEED} replays this")
    chooser = random.Random(SEED)
    for position in chooser.sample(range(len(intact) * 8), 150):
        damaged = bytearray(intact)
        damaged[position // 8] ^= 1 << (position % 8)
        pack.write_bytes(bytes(damaged))
        refusals = 0
        for partition in (0, 1):
            try:
                found = state_at(open_provider(SHAPE, partition=partition), 3)
            except StoreError as error:
                assert error.class_name.startswith(ERRORS), f"bit {position}: {error}"
                assert pack.name in str(error)
                refusals += 1
            else:
                assert found == state_after(partition, 3), f"bit {position}"
        assert refusals, f"bit {position}: it was not noticed"
    pack.write_bytes(intact)
    assert state_at(open_provider(SHAPE), 3) == state_after(0, 3)


def test_a_pack_that_is_not_ours(queries: QueryHarness, open_provider: Opener) -> None:
    pack = write_three_batches(queries, open_provider)[2]
    pack.write_bytes(b"a user's notes, in our place")
    assert_clear(load_error(open_provider), "CorruptFile", pack.name)


def test_a_changes_file_in_the_place_of_a_pack(
    queries: QueryHarness, open_provider: Opener
) -> None:
    pack = write_three_batches(queries, open_provider)[2]
    pack.write_bytes(statefile.read_pack(pack).parts["0/0/default"])
    assert_clear(load_error(open_provider), "CorruptFile", pack.name)


@pytest.mark.parametrize("where", ["index", "part"])
def test_a_newer_format(queries: QueryHarness, open_provider: Opener, where: str) -> None:
    pack = write_three_batches(queries, open_provider)[2]
    data = bytearray(pack.read_bytes())
    start = 8 if where == "index" else len(statefile.read_pack(pack).index) + 8
    data[start : start + 2] = (99).to_bytes(2, "big")
    pack.write_bytes(bytes(data))
    assert_clear(load_error(open_provider), "NewerFormat", pack.name)


def test_a_missing_pack(queries: QueryHarness, open_provider: Opener) -> None:
    write_three_batches(queries, open_provider)[1].unlink()
    error = load_error(open_provider)
    assert_clear(error, "MissingFile", "2-*.pack.tr")
    assert "versions 1 to 3" in str(error)


def test_a_store_that_no_pack_knows(queries: QueryHarness, open_provider: Opener) -> None:
    write_three_batches(queries, open_provider)
    assert_clear(load_error(open_provider, partition=7), "MissingFile", "3-*.pack.tr")


@pytest.mark.parametrize("name", ["3-{digest}", "2-00000000000000aa"])
def test_a_pack_under_another_name(queries: QueryHarness, open_provider: Opener, name: str) -> None:
    packs = write_three_batches(queries, open_provider)
    digest = packs[1].name[2:18]
    renamed = packs[1].with_name(name.format(digest=digest) + ".pack.tr")
    packs[1].rename(renamed)
    if name.startswith("3"):
        packs[2].unlink()
    error = load_error(open_provider)
    assert_clear(error, "CorruptFile", renamed.name)
    assert packs[1].name in str(error)


def with_parts(pack: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Writes a pack anew with other parts of the same lengths, under its old index."""
    found = statefile.read_pack(pack)
    parts = dict(found.parts)
    change(parts)
    pack.write_bytes(found.index + b"".join(parts[entry.store] for entry in found.entries))


def test_parts_in_each_others_place(queries: QueryHarness, open_provider: Opener) -> None:
    """An index that is whole and parts that are whole, but not those that it names."""
    query = Query(queries, open_provider, SHAPE, confs=PLAIN)
    pack = query.commit(0, [([1], [10])], [([2], [20])])
    query.stop()

    def exchange(parts: dict[str, bytes]) -> None:
        one, other = parts["0/0/default"], parts["0/1/default"]
        assert len(one) == len(other)
        parts["0/0/default"], parts["0/1/default"] = other, one

    with_parts(pack, exchange)
    for partition in (0, 1):
        assert_clear(load_error(open_provider, 1, partition), "ForeignFile", pack.name)


def test_a_part_of_another_run(queries: QueryHarness, open_provider: Opener) -> None:
    """The store and the version are right, but the index names another lineage."""
    parts = []
    for value in (10, 11):
        query = Query(queries, open_provider, SHAPE, confs=PLAIN)
        pack = query.commit(0, [([1], [value])], [])
        query.stop()
        parts.append(statefile.read_pack(pack).parts["0/0/default"])
    with_parts(pack, lambda found: found.update({"0/0/default": parts[0]}))
    assert_clear(load_error(open_provider, 1), "CorruptFile", pack.name)


# ---- packs of earlier runs


def test_a_pack_of_another_checkpoint_breaks_the_lineage(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    packs = write_three_batches(queries, open_provider)
    elsewhere = open_provider.elsewhere(tmp_path / "other" / "state")
    query = Query(queries, elsewhere, SHAPE)
    foreign = [query.commit(batch, [([1], [batch])], []) for batch in range(2)][1]
    query.stop()
    packs[1].unlink()
    shutil.copy(foreign, packs[1].with_name(foreign.name))
    assert_clear(load_error(open_provider), "BrokenLineage", foreign.name)


def test_of_two_runs_of_a_batch_the_chain_names_the_one_that_counts(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """Version 2 lies there twice. Version 3 continues one of them; version 2 alone is ambiguous."""
    packs = write_three_batches(queries, open_provider)
    kept = {pack: pack.read_bytes() for pack in packs}
    query = Query(queries, open_provider, SHAPE, committed=0)
    query.commit(1, [([1], [-1])], [([2], [-2])])
    query.stop()
    for pack, data in kept.items():
        pack.write_bytes(data)
    assert state_at(open_provider(SHAPE), 3) == state_after(0, 3)
    error = load_error(open_provider, 2)
    assert error.class_name == ERRORS + "BrokenLineage"
    assert "2 packs of different runs" in str(error)


def test_runs_of_a_task_lie_side_by_side_where_spark_names_them(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """Checkpoint format 2: a task ran twice on one executor, with two results."""
    query = Query(queries, open_provider, SHAPE, partitions=1, confs=NAMED)
    names = []
    for value in (10, 11):
        store = query.stores[0].load(0)
        store.put([1], [value])
        store.commit()
        names.append(store.checkpoint_info()["checkpoint_id"])
    query.publish(0)
    query.stop()
    (pack,) = query.packs_of(1)
    assert [entry.store for entry in statefile.read_pack(pack).entries] == ["0/0/default"] * 2
    for name, value in zip(names, (10, 11), strict=True):
        read = open_provider(SHAPE, confs=NAMED).load_read(1, name)
        assert read.get([1]) == (value,)
        read.release()
    with pytest.raises(StoreError, match="BrokenLineage"):
        open_provider(SHAPE, confs=NAMED).load_read(1)


def test_a_pack_counts_before_a_changes_file(queries: QueryHarness, open_provider: Opener) -> None:
    """A run with commit="sync" crashed; the run that published the version wrote a pack."""
    left = open_provider(SHAPE, confs=SYNCHRONOUS)
    commit_all(left, 0, [([1], [-1])])
    left.close()
    assert (open_provider.directory / "0" / "0" / "1.changes.tr").exists()
    write_three_batches(queries, open_provider)
    for version in (1, 2, 3):
        assert state_at(open_provider(SHAPE), version) == state_after(0, version)


def test_stores_go_on_from_changes_files_with_packs_and_back(
    queries: QueryHarness, open_provider: Opener
) -> None:
    commit_all(open_provider(SHAPE, confs=SYNCHRONOUS), 0, entries_of(0, 0))
    query = Query(queries, open_provider, SHAPE, partitions=1, committed=0)
    query.commit(1, entries_of(0, 1))
    query.stop()
    commit_all(open_provider(SHAPE, confs=SYNCHRONOUS), 2, entries_of(0, 2))
    assert state_at(open_provider(SHAPE), 3) == state_after(0, 3)


def test_what_a_crash_left_is_swept_before_the_batch_is_published(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """Another run's pack of the batch that runs again, one of them only half written."""
    packs = write_three_batches(queries, open_provider)
    names = {pack.name for pack in packs[:2]}
    left = packs[2].with_name("3-00000000000000aa.pack.tr")
    left.write_bytes(packs[2].read_bytes()[:77])
    notes = packs[2].with_name("3-notes.txt")
    notes.write_text("not a pack")
    query = Query(queries, open_provider, SHAPE, committed=1)
    again = query.commit(2, [([1], [-1])], [])
    query.stop()
    assert {path.name for path in query.packs.iterdir()} == {*names, again.name, notes.name}
    assert state_at(open_provider(SHAPE), 3) == {**state_after(0, 2), (1,): (-1,)}


def test_a_query_that_was_set_back_does_not_trip_over_its_former_future(
    queries: QueryHarness, open_provider: Opener
) -> None:
    """`tailrace rollback` has removed the later packs; the query starts again."""
    write_three_batches(queries, open_provider)
    query = Query(queries, open_provider, SHAPE, committed=0)
    query.remove_packs_after(1)
    query.commit(1, [([0], [-1])], [])
    query.commit(2, [([0], [-2])], [])
    query.stop()
    for version, expected in ((2, -1), (3, -2)):
        state = state_at(open_provider(SHAPE), version)
        assert state == {**state_after(0, 1), (0,): (expected,)}


def test_old_packs_go_once_every_store_has_a_snapshot(
    queries: QueryHarness, open_provider: Opener
) -> None:
    few = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
    }
    query = Query(queries, open_provider, SHAPE, confs=few)
    for batch in range(6):
        entries = (entries_of(0, batch), entries_of(1, batch))
        query.commit(batch, *entries, force_snapshot=batch == 2)
    for store in (0, 1):
        wait_for(open_provider.directory / "0" / str(store) / "3.snapshot.tr")

    def versions_left_after(*maintained: int) -> list[str]:
        # Again and again: a snapshot counts a moment after its file is there.
        for store in maintained:
            query.stores[store].maintain()
        return sorted(path.name.partition("-")[0] for path in query.packs.iterdir())

    assert len(versions_left_after(0)) == 6, "the other store may need them"
    wait_until(lambda: versions_left_after(0, 1) == ["4", "5", "6"])
    query.stop()
    for store in (0, 1):
        assert state_at(open_provider(SHAPE, partition=store), 6) == state_after(store, 6)
