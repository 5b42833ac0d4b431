"""One damaged file does not stop a query while others lead to the same state.

Problem: a snapshot only shortens the replay, and a query that stops because of one could go on.
Answer: the load is tried again without the file, on an older snapshot or on changes alone.
Invariant: the loaded state is the committed one; files that the load needed are not deleted by
maintenance; the damage is reported, counted, and covered by a new snapshot soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.damage import (
    ENTRIES,
    SHAPE,
    append_bytes,
    assert_clear,
    contents_of,
    cut_to_header,
    flip_first_bit,
    folder_of,
    load_error,
    to_nothing,
    truncate,
)
from support.expectations import commit_all, contents, state_at
from support.fixtures import Opener
from support.harness import HarnessJar
from support.queries import Query, QueryHarness

from tailrace.options import CONF_PREFIX

# Two blocks of entries, so that damage in the second shows when the first is in the table.
MANY = [([key], [key]) for key in range(10_000)]
PLAIN = {CONF_PREFIX + "compression": "none"}


def write_with_snapshots(opener: Opener, *snapshots: int, versions: int = 6) -> Path:
    """Version v has the key v - 1 set to -v, on top of ten thousand keys."""
    provider = opener(SHAPE, confs=PLAIN)
    folder = folder_of(opener)
    for version in range(versions):
        store = provider.load(version, force_snapshot=version + 1 in snapshots)
        store.put_all(MANY if version == 0 else [])
        store.put([version], [-version - 1])
        assert store.commit() == version + 1
        if version + 1 in snapshots:
            opener.wait_for_snapshot(folder / f"{version + 1}.snapshot.tr")
    provider.close()
    return folder


def state_of(version: int) -> dict[tuple[int], tuple[int]]:
    return {(key,): (-key - 1 if key < version else key,) for key in range(len(MANY))}


def damage_last_block(path: Path) -> None:
    data = bytearray(path.read_bytes())
    assert len(data) > 300_000, "one block only"
    data[len(data) * 3 // 4] ^= 1  # the last bytes are the index
    path.write_bytes(bytes(data))


def load_with_metrics(opener: Opener, version: int) -> tuple[dict[Any, Any], dict[str, int]]:
    store = opener(SHAPE, confs=PLAIN).load(version)
    found = contents(store)
    custom = store.metrics()["custom"]
    store.abort()
    return found, custom


@pytest.mark.parametrize(
    "damage", [truncate, cut_to_header, append_bytes, damage_last_block, to_nothing, flip_first_bit]
)
@pytest.mark.parametrize("earlier", [(), (2,)], ids=["changes", "older_snapshot"])
def test_damaged_snapshot_does_not_stop_a_load(
    open_provider: Opener, damage: Callable[[Path], None], earlier: tuple[int, ...]
) -> None:
    folder = write_with_snapshots(open_provider, *earlier, 4)
    damage(folder / "4.snapshot.tr")
    before = contents_of(folder)
    for version in (4, 6):
        found, metrics = load_with_metrics(open_provider, version)
        assert found == state_of(version)
        assert metrics["tailraceDamagedFiles"] == 1
        assert metrics["tailraceLoadedFiles"] == version - (1 if earlier else 0)
    assert contents_of(folder) == before


def test_intact_files_count_as_none_damaged(open_provider: Opener) -> None:
    write_with_snapshots(open_provider, 2, 4)
    found, metrics = load_with_metrics(open_provider, 6)
    assert found == state_of(6)
    assert (metrics["tailraceDamagedFiles"], metrics["tailraceLoadedFiles"]) == (0, 3)


@pytest.mark.parametrize("damage", [truncate, to_nothing, Path.unlink])
def test_damaged_changes_below_a_snapshot_are_not_needed(
    open_provider: Opener, damage: Callable[[Path], None]
) -> None:
    folder = write_with_snapshots(open_provider, 4)
    damage(folder / "3.changes.tr")
    damage(folder / "4.changes.tr")
    found, metrics = load_with_metrics(open_provider, 6)
    assert found == state_of(6)
    assert metrics["tailraceDamagedFiles"] == 0


def test_every_file_that_was_tried_is_named(open_provider: Opener) -> None:
    folder = write_with_snapshots(open_provider, 2, 4)
    damage_last_block(folder / "4.snapshot.tr")
    truncate(folder / "2.snapshot.tr")
    (folder / "2.changes.tr").unlink()
    error = load_error(open_provider, version=6)
    assert_clear(error, "CorruptFile", "4.snapshot.tr is damaged")
    assert "2.snapshot.tr is damaged" in str(error)
    assert "2.changes.tr is missing" in str(error)


def test_which_run_counts_is_not_concluded_from_a_snapshot(open_provider: Opener) -> None:
    """The changes of the newest version cannot be read: its snapshot may be of an earlier run."""
    provider = open_provider(SHAPE)
    commit_all(provider, 0, ENTRIES)
    store = provider.load(1, force_snapshot=True)
    store.put([1], [-1])
    store.commit()
    open_provider.wait_for_snapshot(folder_of(open_provider) / "2.snapshot.tr")
    commit_all(provider, 1, [([2], [-2])])
    provider.close()
    cut_to_header(folder_of(open_provider) / "2.changes.tr")
    assert_clear(load_error(open_provider, version=2), "CorruptFile", "2.changes.tr")


def test_snapshot_of_a_different_run_does_not_take_the_place(open_provider: Opener) -> None:
    """The newer snapshot is damaged, the older one is of a run that was replaced."""
    provider = open_provider(SHAPE)
    folder = folder_of(open_provider)
    commit_all(provider, 0, ENTRIES)
    for value in (-1, -2):  # the second run of version 2 writes no snapshot
        store = provider.load(1, force_snapshot=value == -1)
        store.put([1], [value])
        store.commit()
        open_provider.wait_for_snapshot(folder / "2.snapshot.tr")
    store = provider.load(2, force_snapshot=True)
    store.put([3], [-3])
    store.commit()
    open_provider.wait_for_snapshot(folder / "3.snapshot.tr")
    provider.close()
    truncate(folder / "3.snapshot.tr")
    state = state_at(open_provider(SHAPE), 3)
    assert (state[(1,)], state[(3,)]) == ((-2,), (-3,))


def test_what_a_damaged_snapshot_was_to_replace_is_kept(open_provider: Opener) -> None:
    """A snapshot that turned out to be damaged does not let older files be deleted."""
    few = {**PLAIN, "spark.sql.streaming.minBatchesToRetain": "2"}
    folder = write_with_snapshots(open_provider, 2, 4)
    damage_last_block(folder / "4.snapshot.tr")
    provider = open_provider(SHAPE, confs=few)
    assert state_at(provider, 6) == state_of(6)
    provider.maintain()
    assert {"2.snapshot.tr", "3.changes.tr", "4.changes.tr"} <= set(contents_of(folder))
    # A new one is written beside the next batch, whatever the sizes, and then they may go.
    commit_all(provider, 6, [([6], [-7])])
    open_provider.wait_for_snapshot(folder / "7.snapshot.tr")
    provider.maintain()
    assert "2.snapshot.tr" in contents_of(folder)
    for version in (7, 8):
        commit_all(provider, version, [([version], [-version - 1])])
    provider.maintain()
    assert set(contents_of(folder)) == {"7.snapshot.tr", "8.changes.tr", "9.changes.tr"}
    provider.close()
    found, metrics = load_with_metrics(open_provider, 9)
    assert found == state_of(9)
    assert metrics["tailraceDamagedFiles"] == 0


def test_a_snapshot_of_this_process_that_is_damaged_later_is_good_no_more(
    open_provider: Opener,
) -> None:
    few = {**PLAIN, "spark.sql.streaming.minBatchesToRetain": "2"}
    provider = open_provider(SHAPE, confs=few)
    folder = folder_of(open_provider)
    for version in range(6):
        store = provider.load(version, force_snapshot=version == 3)
        store.put_all(MANY if version == 0 else [])
        store.put([version], [-version - 1])
        store.commit()
        if version == 3:
            open_provider.wait_for_snapshot(folder / "4.snapshot.tr")
    damage_last_block(folder / "4.snapshot.tr")
    assert state_at(provider, 4) == state_of(4)  # two versions back: loaded again
    provider.maintain()
    assert "1.changes.tr" in contents_of(folder)
    assert state_at(provider, 6) == state_of(6)


# ---- the same with packs


@pytest.fixture
def query(harness_classes: HarnessJar, open_provider: Opener) -> Iterator[Query]:
    """Three batches of two stores, each with a pack; snapshots of version 2."""
    found = Query(QueryHarness(harness_classes), open_provider, SHAPE, confs=PLAIN)
    for batch in range(3):
        entries = [([batch], [-batch])]
        found.commit(batch, entries, entries, force_snapshot=batch == 1)
    for partition in (0, 1):
        open_provider.wait_for_snapshot(
            open_provider.directory / "0" / str(partition) / "2.snapshot.tr"
        )
    found.stop()
    yield found


@pytest.mark.parametrize("damage", [truncate, to_nothing, flip_first_bit])
def test_damaged_snapshot_beside_packs(
    open_provider: Opener, query: Query, damage: Callable[[Path], None]
) -> None:
    damage(folder_of(open_provider) / "2.snapshot.tr")
    found, metrics = load_with_metrics(open_provider, 3)
    assert found == {(key,): (-key,) for key in range(3)}
    assert metrics["tailraceDamagedFiles"] == 1


@pytest.mark.parametrize("damage", [truncate, to_nothing, flip_first_bit, Path.unlink])
def test_damaged_pack_below_a_snapshot_is_not_needed(
    open_provider: Opener, query: Query, damage: Callable[[Path], None]
) -> None:
    for version in (1, 2):
        damage(query.packs_of(version)[0])
    found, metrics = load_with_metrics(open_provider, 3)
    assert found == {(key,): (-key,) for key in range(3)}
    assert metrics["tailraceDamagedFiles"] == 0


def test_damaged_pack_and_damaged_snapshot_are_both_named(
    open_provider: Opener, query: Query
) -> None:
    truncate(folder_of(open_provider) / "2.snapshot.tr")
    to_nothing(query.packs_of(2)[0])
    error = load_error(open_provider)
    assert_clear(error, "CorruptFile", "2.snapshot.tr")
    assert query.packs_of(2)[0].name in str(error)


def test_older_changes_file_does_not_take_the_place_of_a_damaged_pack(
    open_provider: Opener, query: Query
) -> None:
    """The pack of the newest version counts; a changes file beside it may be of an earlier run."""
    provider = open_provider(SHAPE, confs=PLAIN)
    commit_all(provider, 2, [([7], [7])])
    provider.close()
    to_nothing(query.packs_of(3)[0])
    assert_clear(load_error(open_provider), "CorruptFile", query.packs_of(3)[0].name)
