"""Rows that are due: the index by time against a plain dict.

Problem: a row that the index forgets stays in the state for ever, one that it shows twice is
emitted twice; both only after some unlucky order of updates, removals and reverted batches.
Answer: random histories of batches on the real table, and a dict with the rows that should be due.
Invariant: at any moment the rows that are due are those of the dict whose time is not later; rows
without a time never are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.harness import HarnessJar, Remote
from support.seeds import SEED

SECOND = 1_000_000
# Up to the width of a bucket apart, and further.
TIMES = [None, -1, 0, 1, 5, SECOND - 1, SECOND, 2**20 - 1, 2**20, 3 * SECOND, 10**15, -7 * SECOND]
SHAPES = [(True, False), (True, True), (False, False), (False, True)]

Live = dict[tuple[int, int | None], int | None]


class DueTable(Remote):
    """The harness's table and its expected rows: time by key, where time may be in the key."""

    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "DueHarness")
        self.live: Live = {}
        self.before: Live = {}
        self.base: Live = {}

    def start(self, in_key: bool, window: bool, cold: bool = False) -> None:
        """`cold`: between two batches all of it is spilled."""
        self.in_key = in_key
        self.do("new", in_key=in_key, window=window, cold=cold)

    def do(self, op: str, **fields: object) -> object:
        return self.call(op, **fields)

    def put(self, row: int, time: int | None, filler: int = 0) -> None:
        self.do("put", id=row, time=time, filler=filler)
        self.live[(row, time if self.in_key else None)] = time

    def remove(self, key: tuple[int, int | None]) -> None:
        self.do("remove", id=key[0], time=key[1])
        self.live.pop(key, None)

    def shown(self, op: str, **fields: object) -> list[tuple[int, int | None]]:
        rows = self.do(op, **fields)
        assert isinstance(rows, list)
        return sorted((tuple(row) for row in rows), key=repr)

    def expected(self, up_to: int | None) -> list[tuple[int, int | None]]:
        return sorted(
            (
                (row, time)
                for (row, _), time in self.live.items()
                if up_to is None or (time is not None and time != -1 and time <= up_to)
            ),
            key=repr,
        )

    def check(self) -> None:
        for up_to in (-8 * SECOND, 0, 1, SECOND - 1, SECOND, 2 * SECOND, 10**16):
            assert self.shown("due", up_to=up_to) == self.expected(up_to)
        assert self.shown("all") == self.expected(None)


@pytest.fixture
def table(harness_classes: HarnessJar) -> Iterator[DueTable]:
    table = DueTable(harness_classes)
    yield table
    table.do("close")


def change(table: DueTable, chance: random.Random) -> None:
    for _ in range(chance.randrange(12)):
        row, time = chance.randrange(8), chance.choice(TIMES)
        if chance.random() < 0.3 and table.live:
            table.remove(chance.choice(list(table.live)))
        else:
            table.put(row, time, chance.randrange(40))


@pytest.mark.parametrize(("in_key", "window"), SHAPES)
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("history", range(6))
def test_histories(table: DueTable, in_key: bool, window: bool, cold: bool, history: int) -> None:
    chance = random.Random(f"{SEED}/{in_key}/{window}/{history}")
    table.start(in_key, window, cold)
    left = 0
    for _ in range(25):
        before = dict(table.live)
        change(table, chance)
        table.check()
        end = chance.random()
        if end < 0.25:
            table.do("rollback")
            table.live = before
        else:
            table.do("apply")
            if end < 0.5:
                table.check()
                table.do("revert")
                table.live = before
        table.check()
        table.do("begin")
        left += int(table.do("cold"))  # type: ignore[call-overload]
        # Not always: a look at the rows that are due fetches spilled ones.
        if chance.random() < 0.5:
            table.check()
    assert (left > 0) == cold


@pytest.mark.parametrize("cold", [False, True])
def test_many_times_make_wider_buckets(table: DueTable, cold: bool) -> None:
    """Ten thousand seconds, a row each: the index stays small, and shows no row too early."""
    table.start(in_key=False, window=False, cold=cold)
    for row in range(10_000):
        table.put(row, row * SECOND)
    table.do("apply")
    table.do("begin")
    table.put(3, 20_000 * SECOND)  # from a wide bucket to another
    table.remove((4, None))
    assert table.shown("due", up_to=7 * SECOND) == [
        (row, row * SECOND) for row in (0, 1, 2, 5, 6, 7)
    ]
    assert len(table.shown("due", up_to=30_000 * SECOND)) == 9_999


def test_a_rewritten_table_knows_what_is_due(table: DueTable) -> None:
    """Most rows of a large table are removed: the others are moved to another arena."""
    table.start(in_key=True, window=True)
    for row in range(10_000):
        table.put(row, row, filler=8_000)
    table.do("apply")
    table.do("begin")
    for row in range(10_000):
        if row % 100:
            table.remove((row, row))
    table.do("apply")
    large = table.do("bytes")
    table.do("begin")
    table.check()
    table.do("rollback")
    table.do("begin")
    assert table.do("bytes") < large
    table.check()


def test_memory_is_given_back(table: DueTable) -> None:
    before = table.do("budget")
    table.start(in_key=False, window=True)
    for row in range(1_000):
        table.put(row, row * SECOND)
    table.do("apply")
    table.do("close")
    assert table.do("budget") == before
    table.start(in_key=False, window=True)
