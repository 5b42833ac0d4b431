"""Slots of the hash table that are spilled: what is found, what is read, and what stays in memory.

Problem: a key whose slot is in a file is the same to the caller as any other, and a slot that is
shown twice, or not at all, would be a wrong row in silence.
Answer: the real table with a budget that is smaller than its slots; a plain dictionary beside it.
Invariant: every key is found once, whatever is spilled, cleaned, taken back or split meanwhile.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fixtures import wait_until
from support.harness import HarnessJar
from support.seeds import SEED
from support.spill_table import SpillTable

MB = 1 << 20
LIMIT = 4 * MB
KEYS = 400_000
"""Their slots take 6 MB."""
SIZE = 8
BATCH = 8_000


class Slots(SpillTable):
    def slots(self) -> dict[str, int]:
        found: dict[str, int] = self.call("slots")
        return found

    def misses(self) -> int:
        return int(self.call("prefetch")["misses"])

    def expect(self, start: int, end: int) -> None:
        self.call("expect", **{"from": start, "until": end})
        wait_until(lambda: self.call("reading") == 0, "jobs that read are still there")


@pytest.fixture(scope="module")
def filled(
    harness_classes: HarnessJar, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Slots]:
    """More keys than there is memory for their slots. The tests leave them as they are."""
    table = Slots(harness_classes, tmp_path_factory.mktemp("slots") / "cold")
    table.start(limit=LIMIT)
    for start in range(0, KEYS, BATCH):
        table.put(start, start + BATCH, size=SIZE)
        assert table.used() <= LIMIT
        table.next_batch()
    yield table
    table.call("close")


def test_slots_that_do_not_fit_are_in_files(filled: Slots) -> None:
    slots = filled.slots()
    assert slots["files"] > 0
    # How far they are spilled depends on the speed of the I/O threads; that they fit does not.
    assert slots["memory"] < LIMIT
    assert slots["in_memory"] < LIMIT / 12


def test_every_key_is_found(filled: Slots) -> None:
    chance = random.Random(SEED)
    for _ in range(40):
        start = chance.randrange(KEYS - 1_000)
        assert filled.get(start, start + 1_000, size=SIZE) == 1_000
        assert filled.used() <= LIMIT
        filled.next_batch()


def test_a_scan_shows_every_key_once(filled: Slots) -> None:
    numbers = [number for number, _ in filled.words()]
    assert len(numbers) == KEYS
    assert set(numbers) == set(range(KEYS))


def test_absent_keys_seldom_read(filled: Slots) -> None:
    before = filled.misses()
    assert filled.get(KEYS, KEYS + 10_000, size=SIZE) == 0
    assert filled.misses() - before < 2_500  # one in eight passes the filter


def test_expected_keys_are_read_before_they_are_looked_up(filled: Slots) -> None:
    # As many as there is room for: the least that a manager has.
    filled.next_batch()
    cold = sorted(filled.spilled())
    first = cold[len(cold) // 2]
    filled.expect(first, first + 200)
    before = filled.call("prefetch")
    assert filled.get(first, first + 200, size=SIZE) == 200
    after = filled.call("prefetch")
    # Without hints there are 400: a page and a record each. Slots that are spilled meanwhile are
    # read again, and hints are dropped when memory is short.
    assert after["misses"] - before["misses"] <= 200
    assert after["hits"] - before["hits"] >= 50
    filled.next_batch()


def test_expected_keys_that_are_absent_cost_nothing_later(filled: Slots) -> None:
    filled.next_batch()
    filled.expect(KEYS, KEYS + 1_000)
    before = filled.misses()
    assert filled.get(KEYS, KEYS + 1_000, size=SIZE) == 0
    assert filled.misses() - before <= 80  # as above; some 125 without hints
    filled.call("forget_expected")
    assert filled.call("prefetch")["bytes"] == 0


def test_hints_of_a_batch_that_ended_leave_room_for_others(filled: Slots) -> None:
    """Also where a job to read them never began."""
    filled.next_batch()
    for _ in range(20):
        filled.call("bandwidth", bytes=1)
        filled.call("expect", **{"from": 0, "until": 8_000})
        filled.call("forget_expected")
        filled.call("bandwidth", bytes=0)
        wait_until(lambda: filled.call("reading") == 0, "jobs that read are still there")
    assert filled.call("prefetch")["has_room"]


@pytest.mark.parametrize("mode", ["on", "always"])
def test_random_histories(harness_classes: HarnessJar, tmp_path: Path, mode: str) -> None:
    """Puts, removals, look-ups, hints, batches that are taken back, and frozen versions."""
    chance = random.Random(SEED)
    keys = 240_000 if mode == "on" else 3_000
    table = Slots(harness_classes, tmp_path / "cold")
    table.start(limit=LIMIT if mode == "on" else 8 * MB, mode=mode)
    model: dict[int, int] = {}
    if mode == "on":
        for start in range(0, keys, BATCH):
            table.put(start, start + BATCH, size=8)
            table.next_batch()
        model = dict.fromkeys(range(keys), 8)
    before = dict(model)
    for _ in range(40):
        for _ in range(chance.randint(1, 6)):
            start = chance.randrange(keys)
            end = min(keys, start + chance.randint(1, 1_000 if mode == "on" else 60))
            what = chance.choice(["put", "put", "get", "remove", "expect"])
            if what == "put":
                size = chance.choice([8, 24])
                table.put(start, end, size=size)
                model.update(dict.fromkeys(range(start, end), size))
            elif what == "remove":
                table.remove(start, end)
                for number in range(start, end):
                    model.pop(number, None)
            elif what == "expect":
                table.expect(start, end)
            else:
                for size in (8, 24):
                    expected = sum(model.get(number) == size for number in range(start, end))
                    assert table.get(start, end, size=size) == expected
        ending = chance.choice(["apply", "apply", "apply", "rollback", "revert"])
        if ending == "rollback":
            table.call("rollback")
            model = dict(before)
        else:
            table.call("apply")
            if ending == "revert":
                table.call("revert")
                model = dict(before)
        table.call("begin")
        before = dict(model)
    assert table.slots()["files"] > 0
    assert sorted(number for number, _ in table.words()) == sorted(model)
    table.call("apply")
    assert table.call("freeze", at_begin=False)
    shown = table.call("frozen_records") + table.call("frozen_log")
    assert dict(zip(shown[::2], shown[1::2], strict=True)) == model
    assert len(shown) == 2 * len(model)
    table.call("close")


@pytest.mark.parametrize("io", ["direct", "remote"])
def test_files_that_only_io_threads_read(
    harness_classes: HarnessJar, tmp_path: Path, io: str
) -> None:
    table = Slots(harness_classes, tmp_path / "cold", io)
    table.start(limit=LIMIT)
    for start in range(0, KEYS // 2, BATCH):
        table.put(start, start + BATCH, size=SIZE)
        table.next_batch()
    assert table.slots()["files"] > 0
    assert table.get(0, 500, size=SIZE) == 500
    table.next_batch()
    table.expect(20_000, 20_200)
    assert table.get(20_000, 20_200, size=SIZE) == 200
    assert table.call("prefetch")["hits"] >= 50
    table.call("close")


def test_a_damaged_page_is_an_error(harness_classes: HarnessJar, tmp_path: Path) -> None:
    table = Slots(harness_classes, tmp_path / "cold")
    table.start(limit=MB)
    for start in range(0, 100_000, 2_000):
        table.put(start, start + 2_000, size=SIZE)
        table.next_batch()
    for path in table.folder.glob("*.slots"):
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))  # an I/O thread deletes some of them
    with pytest.raises(Exception, match="ColdFileDamaged"):
        table.get(0, 100_000, size=SIZE)
    assert not table.log()["sound"]
    table.call("close")


def test_files_of_slots_are_deleted_with_the_table(
    harness_classes: HarnessJar, tmp_path: Path
) -> None:
    table = Slots(harness_classes, tmp_path / "cold")
    table.start(limit=MB)
    for start in range(0, 60_000, 2_000):
        table.put(start, start + 2_000, size=SIZE)
        table.next_batch()
    assert list(table.folder.glob("*.slots"))
    # One for each part of the table, and those that the next step deletes.
    assert len(list(table.folder.glob("*.slots"))) < 200
    table.call("close")
    assert not table.folder.exists() or not list(table.folder.iterdir())


def test_files_of_slots_are_deleted_when_no_record_is_left(
    harness_classes: HarnessJar, tmp_path: Path
) -> None:
    """The log has no segment then, and its folder has files of slots only."""
    table = Slots(harness_classes, tmp_path / "cold")
    table.start(limit=64 * MB, mode="always")
    table.put(0, 1_000, size=5_000)  # each in a segment of its own
    while not table.slots()["files"]:
        table.next_batch()
    table.remove(0, 1_000)
    for _ in range(100):
        table.next_batch()
        table.get(0, 10)  # at a look, files are deleted
        if not table.files():
            break
    assert not table.files()
    assert list(table.folder.glob("*.slots"))
    table.call("close")
    assert not table.folder.exists()
