"""Spilled records that are read before they are looked up: which, when, and by whom.

Problem: a record that was read ahead, one that is being read and one that is not are the same to
the caller; whether a task waited for the disk does not show in its results.
Answer: the real table with a budget of its own, told which keys it will be asked for; counters of
the manager and of the I/O scheduler.
Invariant: hints cost time and never results; no entry is read twice at a time; bytes that wait are
booked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.fixtures import wait_until
from support.harness import HarnessJar
from support.seeds import SEED
from support.spill_table import SpillTable

MB = 1 << 20
RECORDS = 20_000
SIZE = 200
ENTRY = 24 + 8 + SIZE


class Prefetching(SpillTable):
    def expect(self, start: int, end: int, step: int = 1, *, origin: str = "look-ahead") -> None:
        self.call("expect", **{"from": start, "until": end, "by": step, "origin": origin})

    def prefetch(self) -> dict[str, int]:
        found: dict[str, int] = self.call("prefetch")
        return found

    def wait_until_read(self) -> None:
        wait_until(lambda: self.call("reading") == 0, "jobs that read are still there")

    def spilled_numbers(self, count: int) -> list[int]:
        found = sorted(self.spilled())
        assert len(found) >= count
        return found[:count]


@pytest.fixture(params=["buffered", "direct", "remote"])
def table(
    harness_classes: HarnessJar, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Prefetching]:
    """Twenty thousand records, most of them in files."""
    table = Prefetching(harness_classes, tmp_path / "cold", request.param)
    table.start(limit=3 * MB)
    for start in range(0, RECORDS, 2_000):
        table.put(start, start + 2_000, size=SIZE)
        table.next_batch()
    assert len(table.spilled()) > RECORDS // 2
    yield table
    table.call("bandwidth", bytes=0)
    table.call("close")


def test_expected_records_are_found_in_memory(table: Prefetching) -> None:
    first, *_, last = table.spilled_numbers(500)
    wanted = sorted(set(range(first, last + 1)) & table.spilled())
    table.expect(first, last + 1)
    table.wait_until_read()
    assert table.prefetch()["bytes"] == len(wanted) * ENTRY
    assert table.get(first, last + 1, size=SIZE) == last + 1 - first
    found = table.prefetch()
    assert (found["hits"], found["misses"], found["late"]) == (len(wanted), 0, 0)
    assert found["bytes"] == 0


def test_unexpected_records_are_read_by_the_look_up(table: Prefetching) -> None:
    wanted = table.spilled_numbers(10)
    assert all(table.get(number, number + 1, size=SIZE) == 1 for number in wanted)
    assert table.prefetch()["misses"] == 10
    assert table.call("reads") == 0


def test_what_is_in_memory_is_not_read(table: Prefetching) -> None:
    resident = sorted(set(range(RECORDS)) - table.spilled())
    for number in resident[:50]:
        table.expect(number, number + 1)
    table.expect(RECORDS, RECORDS + 1_000)  # there are no such keys
    assert table.call("reads") == 0


def test_no_entry_is_read_twice_at_a_time(table: Prefetching) -> None:
    wanted = table.spilled_numbers(100)
    for _ in range(3):
        for number in wanted:
            table.expect(number, number + 1)
    table.wait_until_read()
    assert table.prefetch()["bytes"] == len(wanted) * ENTRY
    assert table.call("reads") == len(wanted)  # one job for each: they were asked for one by one


def test_a_look_up_waits_for_an_entry_in_flight(table: Prefetching) -> None:
    (number,) = table.spilled_numbers(1)
    table.call("bandwidth", bytes=ENTRY // 4)  # four seconds for this entry
    table.expect(number, number + 1)
    table.call("get_later", call="later", **{"from": number, "until": number + 1, "size": SIZE})
    assert table.call("waits", call="later")
    assert table.call("result", call="later") == 1
    table.wait_until_read()  # the look-up has its entry before the job that read it is counted
    found = table.prefetch()
    assert (found["late"], found["hits"], found["misses"]) == (1, 0, 0)
    assert table.call("reads") == 1


def test_what_was_not_taken_was_read_in_vain_and_is_given_back(table: Prefetching) -> None:
    used = table.used()
    wanted = table.spilled_numbers(100)
    for number in wanted:
        table.expect(number, number + 1)
    table.wait_until_read()
    assert table.used() == used + len(wanted) * ENTRY
    table.call("forget_expected")
    assert table.used() == used
    assert table.prefetch()["in_vain"] == len(wanted)


def test_reads_in_flight_can_be_forgotten(table: Prefetching) -> None:
    used = table.used()
    first, *_, last = table.spilled_numbers(300)
    table.call("bandwidth", bytes=1)
    table.expect(first, last + 1)
    table.call("forget_expected")
    assert table.used() == used
    table.call("bandwidth", bytes=0)
    assert table.get(first, last + 1, size=SIZE) == last + 1 - first
    table.wait_until_read()
    assert table.prefetch()["bytes"] == 0


def test_what_waits_is_bounded(table: Prefetching) -> None:
    """A limit of 3 MB gives it the least room there is."""
    table.expect(0, RECORDS)
    table.wait_until_read()
    found = table.prefetch()
    assert 0 < found["bytes"] <= 256 << 10
    assert not found["has_room"] or found["bytes"] + ENTRY > 256 << 10
    assert table.get(0, 2_000, size=SIZE) == 2_000


def test_hints_leave_the_task_half_of_the_room(table: Prefetching) -> None:
    table.expect(0, RECORDS, origin="hints")
    table.wait_until_read()
    hinted = table.prefetch()
    assert 100 << 10 < hinted["bytes"] <= 128 << 10
    assert hinted["has_room"]
    read = hinted["arrived"]
    table.expect(0, RECORDS)  # those of the hints are among them, and are not read again
    table.wait_until_read()
    both = table.prefetch()
    assert both["bytes"] > 240 << 10
    assert both["arrived"] * ENTRY <= 256 << 10
    # The hints of the next batch have as much room as these had.
    assert table.get(0, 2_000, size=SIZE) == 2_000
    table.call("batch_over")
    table.next_batch()
    table.expect(0, RECORDS, origin="hints")
    table.wait_until_read()
    assert table.prefetch()["arrived"] - both["arrived"] > read // 2


def test_damage_is_found_by_the_look_up_alone(table: Prefetching) -> None:
    wanted = table.spilled_numbers(5)
    for path in table.files():
        path.write_bytes(bytes(path.stat().st_size))
    for number in wanted:
        table.expect(number, number + 1)
    table.wait_until_read()
    assert table.prefetch()["lost"] == len(wanted)
    assert table.log()["sound"]
    with pytest.raises(Exception, match="ColdFileDamaged"):
        table.get(wanted[0], wanted[0] + 1, size=SIZE)
    assert not table.log()["sound"]


def test_files_that_are_gone_are_no_error(table: Prefetching) -> None:
    """The entries were freed after they were expected, and their file was deleted."""
    assert table.call("read_gone") == 0


def test_random_histories(table: Prefetching) -> None:
    """Hints that are right, wrong, doubled and forgotten, beside spilling and cleaning."""
    chance = random.Random(SEED)
    model: dict[int, Any] = dict.fromkeys(range(RECORDS), SIZE)
    for _ in range(15):
        for _ in range(chance.randint(1, 8)):
            start = chance.randrange(RECORDS)
            end = min(RECORDS, start + chance.randint(1, 1_500))
            what = chance.choice(["expect", "expect", "get", "put", "remove", "forget"])
            if what == "expect":
                table.expect(start, end, step=chance.randint(1, 3))
            elif what == "forget":
                table.call("forget_expected")
            elif what == "put":
                size = chance.choice([64, SIZE])
                end = min(end, start + 500)
                table.put(start, end, size=size)
                model.update((number, size) for number in range(start, end))
            elif what == "remove":
                table.remove(start, end)
                for number in range(start, end):
                    model.pop(number, None)
            else:
                for size in (64, SIZE):
                    expected = sum(model.get(number) == size for number in range(start, end))
                    assert table.get(start, end, size=size) == expected
        table.next_batch()
    for start in range(0, RECORDS, 1_000):
        for size in (64, SIZE):
            expected = sum(model.get(number) == size for number in range(start, start + 1_000))
            assert table.get(start, start + 1_000, size=size) == expected
        table.next_batch()


def test_reading_ahead_begins_and_ends_with_the_time_it_gains(spark: SparkSession) -> None:
    """It begins above 20 microseconds a read, and ends below 10."""
    access = spark._jvm.tailrace.cache.AccessTime()

    def after(microseconds: int) -> bool:
        for _ in range(500):
            access.add(microseconds * 1000)
        return bool(access.isLong())

    assert not access.isLong()
    assert [after(time) for time in (3, 15, 30, 15, 5, 15)] == [
        *(False, False, True, True, False, False),
    ]
    # Now and then the thread loses its core.
    for time in ([3] * 50 + [5_000]) * 20:
        access.add(time * 1000)
        assert not access.isLong()
