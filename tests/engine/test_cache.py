"""Which records leave memory first, under each policy (RFC 18).

Problem: a cache that lets go of the wrong records gives right results, and waits for the disk.
Answer: the real table with a small budget, in which groups of records are used, or expected, in an
order that the test chooses; then it sees which of them are still in memory.
Invariant: the policy decides what is in memory, and no value; what a batch uses stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.fixtures import wait_until
from support.harness import HarnessJar
from support.seeds import SEED
from support.spill_table import SpillTable

MB = 1 << 20
SECOND = 1_000_000
SIZE = 200
GROUP = 2_000
GROUPS = 10
POLICIES = ["timestamp", "lru", "clock"]

Open = Callable[..., "Cache"]


class Cache(SpillTable):
    def use(self, group: int, time: int | None = None) -> None:
        """Looks up a group's records, in a batch of their own."""
        if time is not None:
            self.call("move_to", time=time)
        first = group * GROUP
        assert self.get(first, first + GROUP, size=SIZE) == GROUP
        self.next_batch()

    def expect(self, group: int, time: int | None = None, count: int = GROUP) -> None:
        at = {} if time is None else {"time": time}
        self.call("expect", **{"from": group * GROUP, "until": group * GROUP + count, **at})

    def gone(self) -> list[float]:
        """Of each group, the share that is not in memory."""
        spilled = self.spilled()
        groups = (range(group * GROUP, (group + 1) * GROUP) for group in range(GROUPS))
        return [sum(number in spilled for number in group) / GROUP for group in groups]

    def let_go(self, order: Sequence[int]) -> None:
        """A batch brings records until half of the groups are gone: they leave in this order."""
        first = GROUPS * GROUP
        shares = self.gone()
        while sum(shares) < GROUPS / 2:
            assert first < 5 * GROUPS * GROUP, shares
            self.put(first, first + 500, size=SIZE)
            first += 500
            shares = self.gone()
            ordered = [shares[group] for group in order]
            for place, share in enumerate(ordered[2:]):
                assert share < 0.1 or ordered[place] > 0.9, (ordered, order)


@pytest.fixture
def opened(harness_classes: HarnessJar, tmp_path: Path) -> Iterator[Open]:
    """A table with ten groups of records, all of them in memory."""
    tables: list[Cache] = []

    def open_table(policy: str, **options: Any) -> Cache:
        table = Cache(harness_classes, tmp_path / f"cold-{len(tables)}")
        tables.append(table)
        table.start(cache=policy, **{"limit": 9 * MB, **options})
        for group in range(GROUPS):
            table.put(group * GROUP, (group + 1) * GROUP, size=SIZE)
            table.next_batch()
        return table

    yield open_table
    for table in tables:
        table.call("bandwidth", bytes=0)
        table.call("close")


ORDER = [3, 7, 1, 9, 0, 5, 8, 2, 6, 4]


def test_lru_lets_go_what_was_not_used_for_longest(opened: Open) -> None:
    table = opened("lru")
    for group in ORDER:
        table.use(group)
    table.let_go(ORDER)


def test_without_times_timestamp_goes_by_the_last_use(opened: Open) -> None:
    table = opened("timestamp")
    for group in ORDER:
        table.use(group)
    table.let_go(ORDER)


def test_timestamp_goes_by_the_rows_times(opened: Open) -> None:
    """Late rows use records last, but at an earlier time. LRU keeps these, timestamp the others."""
    times = {group: (1_000 + 10 * place) * SECOND for place, group in enumerate(ORDER)}
    by_time, by_use = opened("timestamp"), opened("lru")
    for group in reversed(ORDER):
        by_time.use(group, times[group])
        by_use.use(group, times[group])
    by_time.let_go(ORDER)
    by_use.let_go(ORDER[::-1])


def test_what_is_expected_leaves_later(opened: Open) -> None:
    """Records that will be used soon and those that were used rank by one clock. LRU looks back."""
    for policy, order in (("timestamp", [*ORDER[:2], *ORDER[3:], ORDER[2]]), ("lru", ORDER)):
        table = opened(policy)
        for place, group in enumerate(ORDER):
            table.use(group, (100 + place) * SECOND)
        first = 9 * GROUPS * GROUP
        while not table.spilled():  # before that there is nothing to expect
            table.put(first, first + 500, size=SIZE)
            first += 500
        assert table.gone()[ORDER[2]] == 0
        table.expect(ORDER[2], time=1_000 * SECOND)
        table.let_go(order)


def test_the_clock_knows_only_that_a_record_was_used(opened: Open) -> None:
    """All were: the hand takes the mark off each, and then the records as they lie in the table."""
    table = opened("clock")
    for group in ORDER:
        table.use(group)
    first = GROUPS * GROUP
    while sum(table.gone()) < GROUPS / 4:
        table.put(first, first + 500, size=SIZE)
        first += 500
    shares = table.gone()
    assert max(shares) - min(shares) < 0.2


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_batch_uses_stays(opened: Open, policy: str) -> None:
    """Also if its time is the oldest of all."""
    table = opened(policy)
    for group in ORDER:
        table.use(group, 1_000 * SECOND)
    hot = set(range(0, GROUPS * GROUP, 20))
    table.call("move_to", time=SECOND)
    assert table.get(0, GROUPS * GROUP, size=SIZE, step=20) == len(hot)
    table.put(30_000, 43_000, size=SIZE)
    spilled = table.spilled()
    assert spilled
    assert not spilled & (hot | set(range(30_000, 43_000)))
    table.next_batch()


@pytest.mark.parametrize("way", ["get", "expect"])
def test_a_record_that_is_asked_for_returns_from_the_eviction_buffer(
    opened: Open, way: str
) -> None:
    """It was chosen, and is being written: it stays, and is not read again."""
    table = opened("timestamp")
    for place, group in enumerate(ORDER):
        table.use(group, (100 + place) * SECOND)
    first = 10 * GROUPS * GROUP

    def put_some() -> None:
        nonlocal first
        table.put(first, first + 64, size=SIZE)
        first += 64

    while not table.spilled():
        put_some()
    wait_until(lambda: table.call("spilling") == 0)
    put_some()  # installs what was written
    table.call("bandwidth", bytes=100_000)  # a step takes a second and more from now on
    while table.call("spilling") == 0:
        put_some()
    before = table.spilled()
    assert table.log()["returned"] == 0
    if way == "get":
        numbers = [number for number in range(GROUPS * GROUP) if number not in before]
        runs = [number for number in numbers if number - 1 in before or number == 0]
        for start in runs:
            end = start
            while end < GROUPS * GROUP and end not in before:
                end += 1
            assert table.get(start, end, size=SIZE) == end - start
    else:
        for group in ORDER:
            table.expect(group, time=9_999 * SECOND)
    table.call("bandwidth", bytes=0)
    wait_until(lambda: table.call("spilling") == 0)
    put_some()
    assert table.log()["returned"] > 100
    assert table.spilled() == before
    assert table.call("prefetch")["misses"] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_random_histories(opened: Open, policy: str) -> None:
    """Values are equal under every policy, with a budget that holds a small part of them."""
    chance = random.Random(SEED)
    table = opened(policy, limit=4 * MB)
    model: dict[int, int] = dict.fromkeys(range(GROUPS * GROUP), SIZE)
    for _ in range(25):
        for _ in range(chance.randint(1, 6)):
            first = chance.randrange(GROUPS * GROUP)
            until = min(GROUPS * GROUP, first + chance.randint(1, 1_200))
            what = chance.choice(["put", "get", "get", "remove", "expect", "move_to", "roll"])
            if what == "put":
                size = chance.choice([64, SIZE])
                table.put(first, until, size=size)
                model.update(dict.fromkeys(range(first, until), size))
            elif what == "remove":
                table.remove(first, until)
                for number in range(first, until):
                    model.pop(number, None)
            elif what == "expect":
                time = {"time": chance.randrange(10_000) * SECOND}
                table.call("expect", **{"from": first, "until": until}, **time)
            elif what == "move_to":
                table.call("move_to", time=chance.randrange(10_000) * SECOND)
            elif what == "roll":
                table.call("batch_over")
            else:
                for size in (64, SIZE):
                    wanted = sum(model.get(number) == size for number in range(first, until))
                    assert table.get(first, until, size=size) == wanted
        table.next_batch()
    for first in range(0, GROUPS * GROUP, 1_000):
        for size in (64, SIZE):
            wanted = sum(model.get(number) == size for number in range(first, first + 1_000))
            assert table.get(first, first + 1_000, size=size) == wanted
        table.next_batch()


# ---- records that were read ahead


def counts(table: Cache) -> dict[str, int]:
    found: dict[str, int] = table.call("prefetch")
    return found


def read_ahead(table: Cache, count: int) -> list[int]:
    """So many records that are in files are read, and not looked up; then their batch is over."""
    chosen = sorted(table.spilled())[:count]
    for number in chosen:
        table.call("expect", **{"from": number, "until": number + 1})
    wait_until(lambda: table.call("reading") == 0)
    table.call("batch_over")
    return chosen


def test_what_was_read_ahead_stays_for_later_batches(opened: Open) -> None:
    """As what was used does; under the other policies it was read in vain."""
    for policy, stays in (("timestamp", True), ("lru", False), ("clock", False)):
        table = opened(policy, limit=4 * MB)
        chosen = read_ahead(table, 100)
        found = counts(table)
        assert (found["in_vain"], found["bytes"] > 0) == (0 if stays else 100, stays)
        table.next_batch()
        for number in chosen:
            assert table.get(number, number + 1, size=SIZE) == 1
        now = counts(table)
        assert now["hits"] - found["hits"] == (100 if stays else 0)
        assert now["bytes"] == 0


def test_what_was_read_for_an_earlier_batch_makes_room(opened: Open) -> None:
    """The oldest first; records of the running batch are never given up for one another."""
    table = opened("timestamp", limit=4 * MB)
    used = table.used()
    first = read_ahead(table, 600)
    second = read_ahead(table, 100 + 600)[600:]
    assert counts(table)["in_vain"] == 0
    assert counts(table)["has_room"]
    rest = sorted(table.spilled() - set(first) - set(second))
    for number in rest[:1_050]:  # more than there is room for
        table.call("expect", **{"from": number, "until": number + 1})
    wait_until(lambda: table.call("reading") == 0)
    found = counts(table)
    assert found["bytes"] <= 256 << 10
    assert found["in_vain"] >= 600
    for number in first[:50]:
        assert table.get(number, number + 1, size=SIZE) == 1
    assert counts(table)["hits"] == 0
    for number in rest[:50]:
        assert table.get(number, number + 1, size=SIZE) == 1
    assert counts(table)["hits"] == 50
    table.call("forget_expected")
    assert counts(table)["bytes"] == 0
    assert table.used() <= used + 2 * 50 * 300


# ---- the clock


def clock_of(spark: SparkSession, policy: str) -> Any:
    policies = spark._jvm.tailrace.cold.EvictionPolicy
    chosen = next(each for each in listed(policies.all()) if each.name() == policy)
    return spark._jvm.tailrace.layout.UseClock(chosen)


def listed(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


def test_stamps_follow_operations(spark: SparkSession) -> None:
    clock = clock_of(spark, "lru")
    before = clock.stamp()
    clock.moveTo(10 * SECOND)  # no use is made of times
    assert clock.stamp() == before
    getattr(clock, "pass")(64)
    assert clock.stamp() == before + 1
    assert clock.stampFor(5 * SECOND, 0) == 0  # nothing is expected
    assert clock_of(spark, "clock").stamp() == 0


def test_stamps_follow_times(spark: SparkSession) -> None:
    clock = clock_of(spark, "timestamp")
    stamps = []
    for time in (1_000, 1_001, 999, 1_010, 900):
        clock.moveTo(time * SECOND)
        stamps.append(clock.stamp())
    assert [sorted(stamps).index(stamp) for stamp in stamps] == [2, 3, 1, 4, 0]
    assert clock.stampFor(1_001 * SECOND, 0) == stamps[1]


def test_a_few_rows_from_far_away_spoil_no_order(spark: SparkSession) -> None:
    clock = clock_of(spark, "timestamp")
    for row in range(2_000):
        far = {100: 4_000_000_000, 101: 0}.get(row % 200, 1_000 + row // 100)
        clock.moveTo(far * SECOND)
    assert not clock.isOutgrown()
    clock.moveTo(1_001 * SECOND)
    earlier = clock.stamp()
    clock.moveTo(1_002 * SECOND)
    assert clock.stamp() > earlier


@pytest.mark.parametrize("direction", [1, -1])
def test_times_that_outgrow_the_stamps(spark: SparkSession, direction: int) -> None:
    """There are larger steps, in which records keep their order and new times have stamps."""
    clock = clock_of(spark, "timestamp")
    hours = range(0, 40 * direction, direction)

    def stamps_now() -> list[int]:
        found = []
        for hour in hours:
            for second in range(30):
                clock.moveTo((10**9 + 3_600 * hour + second) * SECOND)
            found.append(int(clock.stamp()))
        return found[::direction]

    stamps = stamps_now()
    assert len(set(stamps)) < len(hours)
    for _ in range(20):
        if not clock.isOutgrown():
            break
        renamed = list(clock.rescale(min(stamps)))
        moved = [renamed[stamp] for stamp in stamps]
        assert moved == sorted(moved)
        assert renamed[0] == 0
        stamps = stamps_now()
    assert stamps == sorted(set(stamps))
    assert len(stamps) == len(hours)
