"""Spilling while a batch runs: which records are spilled, when, by whom, and the cost on disk.

Problem: a store that spills too late ends its query, one that spills the wrong records reads them
all back, and a log that is not cleaned fills the disk; none of it shows in the results.
Answer: the real table with a budget of its own; the records in memory, those in the log, which
threads wrote it.
Invariant: memory runs out only when the records of one batch do not fit; the log keeps its bound;
tasks neither write nor delete files.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fixtures import wait_until
from support.harness import HarnessJar, StoreError
from support.seeds import SEED
from support.spill_table import SpillTable

MB = 1 << 20
SLACK = 256 << 10
"""The smallest segment: a log of that size is not cleaned."""

ON_EACH_TIER = pytest.mark.parametrize("table", ["buffered", "remote"], indirect=True)


@pytest.fixture
def table(
    harness_classes: HarnessJar, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[SpillTable]:
    table = SpillTable(harness_classes, tmp_path / "cold", getattr(request, "param", "buffered"))
    yield table
    if table.is_open:
        table.call("close")


def test_a_batch_that_needs_more_than_is_free(table: SpillTable) -> None:
    """Each batch brings as much as a quarter of the limit; it is spilled while it runs."""
    table.start(limit=16 * MB)
    for batch in range(12):
        table.put(batch * 10_000, (batch + 1) * 10_000, size=400)  # 4 MB of records
        assert table.used() <= 16 * MB
        table.next_batch()
    assert table.log()["spilled"] > 70_000
    # Records that a batch reads are fetched, and make way for those of the next one.
    for batch in range(12):
        assert table.get(batch * 10_000, (batch + 1) * 10_000, size=400) == 10_000
        table.next_batch()


@ON_EACH_TIER
def test_lists_that_need_more_than_is_free(table: SpillTable) -> None:
    table.start(limit=8 * MB, lists=True)
    for batch in range(12):
        table.append(batch % 4 * 2_000, (batch % 4 + 1) * 2_000, size=800)  # 1.6 MB
        assert table.used() <= 8 * MB
        table.next_batch()
    assert table.values(0, 8_000) == 24_000


def test_a_batch_that_does_not_fit_itself(table: SpillTable) -> None:
    """All it brings is its own: nothing of it can be spilled before it is over."""
    table.start(limit=4 * MB)
    table.put(0, 1_000)
    table.next_batch()
    with pytest.raises(StoreError) as raised:
        table.put(0, 100_000)
    assert raised.value.class_name.endswith("MemoryExhausted")


def test_what_a_batch_uses_stays_in_memory(table: SpillTable) -> None:
    table.start(limit=8 * MB)
    table.put(0, 20_000, size=200)
    table.next_batch()
    hot = set(range(0, 20_000, 10))
    assert table.get(0, 20_000, size=200, step=10) == 2_000
    table.put(20_000, 30_000, size=200)
    spilled = table.spilled()
    assert spilled  # in the middle of the batch
    assert not spilled & (hot | set(range(20_000, 30_000)))
    table.call("rollback")
    table.call("begin")
    assert table.get(0, 10_000, size=200) == 10_000
    table.next_batch()
    assert table.get(10_000, 30_000, size=200) == 10_000


def test_records_that_are_used_are_spilled_last(table: SpillTable) -> None:
    table.start(limit=8 * MB)
    table.put(0, 15_000, size=200)
    for batch in range(20):
        table.next_batch()
        table.get(0, 15_000, size=200, step=10)
        table.put(15_000 + batch * 1_500, 16_500 + batch * 1_500, size=200)
    spilled = table.spilled()
    assert len(spilled) > 15_000
    assert not spilled & set(range(0, 15_000, 10))


def test_a_scan_that_removes_finds_every_record(table: SpillTable) -> None:
    """Removals make the log have its segments cleaned, and their files deleted, under the scan."""
    table.start(limit=16 * MB, mode="always")
    for start in range(0, 6_000, 1_000):
        table.put(start, start + 1_000, size=80)
        table.next_batch()
    while len(table.spilled()) < 5_000:
        table.next_batch()
    assert table.call("drain") == 6_000
    table.next_batch()
    assert len(table.words()) == 3_000
    table.next_batch()
    log = table.log()
    assert log["total"] <= 1.5 * log["live"] + 2 * SLACK


def test_the_hand_goes_on_where_it_stopped(table: SpillTable) -> None:
    """What is spilled later lies further on in the table, until the hand has gone round."""
    table.start(limit=24 * MB, cache="clock")
    table.put(0, 30_000, size=400)
    seen: set[int] = set()
    places: list[float] = []
    batch = 0
    while len(seen) < 21_000:
        table.next_batch()
        table.put(30_000 + batch * 1_000, 31_000 + batch * 1_000, size=400)
        batch += 1
        words = [(number, resident) for number, resident in table.words() if number < 30_000]
        new = [at for at, (number, resident) in enumerate(words)
               if not resident and number not in seen]  # fmt: skip
        seen |= {number for number, resident in words if not resident}
        if new:
            places.append(statistics.median(new))
    assert len(places) >= 4
    turns = sum(later < earlier for earlier, later in itertools.pairwise(places))
    assert turns <= 1, places
    assert max(places) > 16_000


def test_a_table_without_records_in_memory_is_not_swept(table: SpillTable) -> None:
    table.start(limit=64 * MB, mode="always")
    table.put(0, 5_000)
    for _ in range(3):
        table.next_batch()
    assert table.call("resident") == 0
    swept = table.call("swept")
    for _ in range(4):
        table.next_batch()
    assert table.call("swept") == swept


@ON_EACH_TIER
def test_the_log_keeps_to_its_bound(table: SpillTable) -> None:
    """Also its files do, as soon as they are deleted."""
    table.start(limit=12 * MB)
    chance = random.Random(SEED)
    for batch in range(6):
        table.put(batch * 8_000, (batch + 1) * 8_000, size=400)
        table.next_batch()
    for _ in range(25):
        first = chance.randrange(12)
        table.get(first, 48_000, size=400, step=12)
        table.put(first, 48_000, size=400, step=12)
        table.next_batch()
        log = table.log()
        assert log["live"] > 12 * MB
        assert log["total"] <= 1.5 * log["live"] + SLACK

    def files_keep_to_it() -> bool:
        table.get(0, 100, size=400)  # at a look, files are deleted
        log = table.log()
        return log["files"] <= 1.5 * log["live"] + SLACK + MB

    wait_until(files_keep_to_it)
    assert table.get(0, 4_000, size=400) == 4_000


@ON_EACH_TIER
def test_a_segment_that_is_gone_before_it_is_cleaned(table: SpillTable) -> None:
    table.start(limit=8 * MB)
    assert table.call("clean_gone") == 0


@ON_EACH_TIER
def test_no_task_writes_or_deletes(table: SpillTable) -> None:
    table.start(limit=8 * MB)
    for batch in range(6):
        table.put(batch, 120_000, step=6)
        table.next_batch()
    table.call("close")
    table.is_open = False
    threads = table.call("threads")
    assert any(what.startswith("write") for what in threads)
    assert any(what.startswith("delete") for what in threads)
    assert {what.partition(": ")[2] for what in threads} == {"tailrace-io-"}


def error_of_spilling(table: SpillTable) -> StoreError:
    """The state outgrows its memory, and cannot be written."""
    table.put(0, 10_000)
    table.next_batch()
    with pytest.raises(StoreError) as raised:
        for batch in range(20):
            table.put(10_000 + 1_000 * batch, 11_000 + 1_000 * batch)
            table.next_batch()
    return raised.value


def test_a_full_disk(table: SpillTable) -> None:
    table.start(limit=4 * MB, full=True)
    error = error_of_spilling(table)
    assert error.class_name.endswith("SpillFailed")
    assert "No space left on device" in str(error)
    for part in (str(table.folder), "local_dir", "memory_limit", "nothing is lost"):
        assert part in str(error)
    assert not table.log()["sound"]  # the store that it belongs to loads its state again


def test_a_file_system_without_direct_io(table: SpillTable) -> None:
    """A device that cannot be opened past the page cache stands in for it."""
    table.start(limit=4 * MB, full=True, io="direct")
    error = error_of_spilling(table)
    assert error.class_name.endswith("DirectIoUnsupported")
    for part in (str(table.folder), "cold_io", "buffered", "local_dir", "nothing is lost"):
        assert part in str(error)


def test_a_frozen_version_that_does_not_fit_is_put_off(table: SpillTable) -> None:
    table.start(limit=12 * MB)
    for batch in range(12):
        table.put(batch * 25_000, (batch + 1) * 25_000, size=8)
        table.next_batch()
    used = table.used()
    if not table.call("freeze"):  # at the commit; when a batch begins, room can be made
        assert table.call("freeze", at_begin=True)
    assert table.used() <= 12 * MB
    table.call("thaw")
    table.put(0, 5_000, size=8)
    table.next_batch()
    assert used <= 12 * MB
    assert table.get(0, 20_000, size=8) == 20_000


@pytest.mark.parametrize(
    ("table", "mode"),
    [("buffered", "on"), ("buffered", "always"), ("remote", "on")],
    indirect=["table"],
)
def test_a_frozen_version_shows_each_record_once(table: SpillTable, mode: str) -> None:
    """Whatever is on its way to the log when it is frozen, and whatever changes after that."""
    table.start(limit=(64 if mode == "always" else 8) * MB, mode=mode)  # "always" spills anyhow
    chance = random.Random(SEED)
    model: dict[int, int] = {}
    spilled = 0
    for _ in range(15):
        for _ in range(3):
            first, size = chance.randrange(12_000), chance.randrange(40, 400)
            table.put(first, first + 4_000, size=size, step=4)
            model.update(dict.fromkeys(range(first, first + 4_000, 4), size))
        table.call("apply")
        assert table.call("freeze")
        spilled += len(table.spilled())
        shown = table.call("frozen_records")  # the next calls may wait for that
        table.call("begin")
        first = chance.randrange(12_000)
        table.put(first, first + 2_000, size=32, step=2)
        table.remove(first, first + 500)
        shown += table.call("frozen_log")
        assert len(shown) == 2 * len(model)
        assert dict(zip(shown[::2], shown[1::2], strict=True)) == model
        table.call("thaw")
        model.update(dict.fromkeys(range(first, first + 2_000, 2), 32))
        for number in range(first, first + 500):
            model.pop(number, None)
    assert spilled > 10_000


def test_a_frozen_version_takes_memory_for_what_is_in_memory(table: SpillTable) -> None:
    table.start(limit=64 * MB, mode="always")
    table.put(0, 100_000, size=8)
    for _ in range(3):
        table.next_batch()
    assert table.call("resident") == 0
    table.call("apply")
    before = table.used()
    assert table.call("freeze")
    assert table.used() - before < 1_000
    assert table.call("frozen_records") == []
    assert sorted(table.call("frozen_log")[::2]) == list(range(100_000))
    table.call("thaw")


def ends(table: SpillTable) -> str:
    return str(table.call("snapshots")["ends"])


def fill_beside_a_snapshot(table: SpillTable) -> None:
    """Batches that need the memory of all that the snapshot keeps."""
    for batch in range(12):
        table.put(batch * 10_000, (batch + 1) * 10_000, size=400)
        table.next_batch()


def test_a_task_does_not_wait_for_a_snapshot_that_has_not_begun(table: SpillTable) -> None:
    """Another store's snapshot hangs; the checkpoint does not answer."""
    table.start(limit=16 * MB)
    table.put(0, 20_000, size=400)
    table.call("apply")
    table.call("occupy_snapshots")
    assert table.call("snapshot")
    table.call("begin")
    assert ends(table) == ""
    fill_beside_a_snapshot(table)
    assert ends(table) == "put off"
    table.call("let_snapshots_go")
    assert table.call("snapshot")  # a later one is written
    wait_until(lambda: ends(table) == "put off, written")
    assert table.call("snapshots")["files"] == 1


@ON_EACH_TIER
@pytest.mark.parametrize("lists", [False, True])
def test_a_task_does_not_wait_for_a_snapshot_that_hangs(table: SpillTable, lists: bool) -> None:
    """The records are free at once. The writer sees it when the checkpoint answers."""
    table.start(limit=16 * MB, lists=lists)
    put = table.append if lists else table.put
    put(0, 20_000, size=400)
    table.call("apply")
    assert table.call("snapshot", hangs=True)
    table.call("begin")
    for batch in range(12):
        put(batch * 10_000, (batch + 1) * 10_000, size=400)
        table.next_batch()
    assert ends(table) == ""
    assert table.call("snapshots")["frozen"]
    assert not table.call("freeze")  # there is one at a time
    table.call("let_snapshots_go")
    wait_until(lambda: ends(table) == "put off")
    assert table.call("snapshots")["files"] == 0
    assert not table.call("snapshots")["frozen"]


@pytest.mark.parametrize("end", ["revert", "close"])
def test_a_snapshot_that_waits_for_its_turn_is_cancelled(table: SpillTable, end: str) -> None:
    table.start(limit=16 * MB)
    table.put(0, 1_000)
    table.call("apply")
    table.call("occupy_snapshots")
    assert table.call("snapshot")
    table.call("close_table" if end == "close" else end)
    assert ends(table) == "cancelled"
    table.call("let_snapshots_go")
    table.is_open = end != "close"


def test_slots_are_small(table: SpillTable) -> None:
    """Twelve bytes each, of which at least four ninths are in use."""
    table.start(limit=256 * MB)
    for keys in (1_000, 10_000, 100_000, 300_000):
        table.put(0, keys, size=8)
        assert table.call("overhead") <= 28 * keys
    assert table.get(0, 300_000, size=8) == 300_000
    table.remove(0, 150_000)
    assert table.get(0, 300_000, size=8) == 150_000


def test_slots_are_smaller_when_memory_is_tight(table: SpillTable) -> None:
    """At least two thirds of the slots are in use, once records have to leave."""
    table.start(limit=16 * MB)
    for first in range(0, 600_000, 10_000):
        table.put(first, first + 10_000, size=8)
        table.next_batch()
        if first >= 400_000:
            assert table.call("overhead") <= 18 * (first + 10_000)
    assert table.get(0, 1_000, size=8) == 1_000


def test_one_limit_for_all_sessions(table: SpillTable) -> None:
    table.start(limit=100_000)

    def limit() -> int:
        return int(table.call("budget")["limit"])

    table.call("ask", bytes=64_000)
    assert limit() == 64_000
    table.call("ask", bytes=32_000)  # another session: it is told that the first counts
    table.call("ask", bytes=64_000)
    assert limit() == 64_000
    table.call("withdraw", bytes=64_000)
    assert limit() == 64_000
    table.call("withdraw", bytes=64_000)
    assert limit() == 32_000
    table.call("withdraw", bytes=32_000)
    assert limit() == 100_000


def test_freed_memory_is_overwritten(table: SpillTable) -> None:
    """Code that still reads a freed record sees wrong bytes in every test, not the old ones."""
    assert table.call("poisons"), "stores of this session keep the bytes of freed records"
    table.start(limit=16 * MB)
    table.put(0, 2, size=400)
    table.next_batch()
    table.remember(0)
    before = table.bytes_there()
    assert len(before) == 400
    assert b"\xdb" not in before
    table.remove(0, 1)
    # A batch can be taken back until the next one was applied: then nobody needs the record.
    for _ in range(2):
        table.next_batch()
    assert table.bytes_there() == b"\xdb" * 400
    table.remember(1)
    assert table.bytes_there() == before
