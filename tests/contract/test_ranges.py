"""Range scans: ordered by value and not by bytes, from the start inclusive to the end exclusive.

A bound is a full key. Its columns outside the ordering hold the smallest value of their type, as
Spark's own operators build it, so that a bound stands before every key of the same order.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from support.expectations import Capability, commit_all, contents, needs, refuses
from support.fixtures import Opener
from support.harness import TIMESTAMP_POSTFIX, TIMESTAMP_PREFIX, Encoder, Shape, Store

pytestmark = needs(Capability.RANGE_ENCODER, Capability.TIMESTAMP_ENCODERS)

EDGES: dict[str, list[Any]] = {
    "LONG": [-(2**63), -(2**32), -257, -256, -255, -1, 0, 1, 255, 256, 257, 2**32, 2**63 - 1],
    "INT": [-(2**31), -65536, -257, -256, -1, 0, 1, 127, 128, 255, 256, 65536, 2**31 - 1],
    "SHORT": [-(2**15), -256, -1, 0, 1, 127, 128, 255, 256, 2**15 - 1],
    "BYTE": [-128, -127, -1, 0, 1, 126, 127],
    "DOUBLE": [-math.inf, -1e300, -2.5, -1.0, -1e-300, 0.0, 1e-300, 1.0, 2.5, 1e300, math.inf],
    "FLOAT": [-math.inf, -1e30, -2.5, -1.0, -0.125, 0.0, 0.125, 1.0, 2.5, 1e30, math.inf],
}


def keys(found: list[tuple[Any, Any]]) -> list[Any]:
    return [key for key, _ in found]


def first_column(found: list[tuple[Any, Any]]) -> list[Any]:
    return [key[0] for key, _ in found]


def approximately(values: list[Any]) -> list[Any]:
    """Floats come back through the type they were stored in, infinities as words."""
    numbers = [float(value) if isinstance(value, str) else value for value in values]
    return [pytest.approx(value, rel=1e-6) for value in numbers]


@pytest.mark.parametrize("column_type", list(EDGES))
@pytest.mark.parametrize("committed", [False, True])
def test_the_order_is_that_of_the_values(
    open_provider: Opener, column_type: str, committed: bool
) -> None:
    ordered = EDGES[column_type]
    shuffled = random.Random(7).sample(ordered, len(ordered))
    shape = Shape(key=f"o {column_type}, s STRING", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape)
    store = provider.load(0)
    for value in shuffled:
        store.put([value, "x"], [1])
    if committed:
        assert store.commit() == 1
        provider.close()
        store = open_provider(shape).load(1)
    expected = approximately(ordered)
    assert [float(value) for value in first_column(store.range_scan())] == expected
    assert [float(value) for value in first_column(store.iterate())] == expected
    low, high = ordered[2], ordered[-3]
    found = first_column(store.range_scan([low, ""], [high, ""]))
    assert [float(value) for value in found] == approximately(ordered[2:-3])


def test_nulls_come_last(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    store = open_provider(shape).load(0)
    for value in (5, None, -5, 0):
        store.put([value, "x"], [1])
    assert first_column(store.range_scan()) == [-5, 0, 5, None]
    assert first_column(store.range_scan([0, ""])) == [0, 5, None]
    assert first_column(store.prefix_scan([None])) == [None]
    assert store.get([None, "x"]) == (1,)


def test_bounds(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape)
    entries = [((number, name), (number,)) for number in range(-10, 11, 2) for name in ("a", "b")]
    assert commit_all(provider, 0, entries) == 1
    store = provider.load(1)

    def scanned(start: int | None, end: int | None) -> list[int]:
        found = store.range_scan(
            None if start is None else [start, ""], None if end is None else [end, ""]
        )
        assert all(value == (key[0],) for key, value in found)
        return first_column(found)

    def expected(start: int, end: int) -> list[int]:
        return [number for number in range(-10, 11, 2) if start <= number < end for _ in "ab"]

    assert scanned(None, None) == expected(-99, 99)
    assert scanned(-4, None) == expected(-4, 99)
    assert scanned(-3, None) == expected(-3, 99)
    assert scanned(None, 4) == expected(-99, 4)
    assert scanned(None, 5) == expected(-99, 5)
    assert scanned(-4, 4) == expected(-4, 4)
    assert scanned(-5, 5) == expected(-5, 5)
    assert scanned(4, 4) == []
    assert scanned(3, 4) == []
    assert scanned(11, None) == []
    assert scanned(None, -10) == []
    assert scanned(4, -4) == []


def test_a_full_key_as_the_start_is_inclusive_and_as_the_end_exclusive(
    open_provider: Opener,
) -> None:
    shape = Shape(key="a LONG, b INT", value="v LONG", encoder=Encoder.range(0, 1))
    store = open_provider(shape).load(0)
    all_keys = [(a, b) for a in (-1, 0, 1) for b in (-2, 0, 2)]
    store.put_all((key, (0,)) for key in all_keys)
    assert keys(store.range_scan((0, 0), (1, 0))) == [(0, 0), (0, 2), (1, -2)]


def test_scans_see_uncommitted_changes(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape)
    assert commit_all(provider, 0, [((number, "x"), (0,)) for number in range(0, 20, 2)]) == 1
    store = provider.load(1)
    for number in (3, 5, 11):
        store.put([number, "x"], [1])
    store.remove([4, "x"])
    store.put([6, "x"], [1])
    assert store.range_scan([2, ""], [8, ""]) == [
        ((2, "x"), (0,)),
        ((3, "x"), (1,)),
        ((5, "x"), (1,)),
        ((6, "x"), (1,)),
    ]
    store.abort()
    store = provider.load(1)
    assert first_column(store.range_scan([2, ""], [8, ""])) == [2, 4, 6]


def test_several_ordering_columns(open_provider: Opener) -> None:
    shape = Shape(
        key="s STRING, a INT, d DOUBLE, b LONG", value="v LONG", encoder=Encoder.range(3, 1)
    )
    generator = random.Random(11)
    rows = [
        (f"s{number}", generator.choice([-1, 0, 1, None]), 0.5, generator.randrange(-3, 4))
        for number in range(60)
    ]
    provider = open_provider(shape)
    assert commit_all(provider, 0, [(key, (1,)) for key in rows]) == 1
    store = provider.load(1)
    found = keys(store.range_scan())
    assert len(found) == len(rows)
    assert set(found) == set(rows)
    order = [(key[3], key[1] is None, key[1] or 0) for key in found]
    assert order == sorted(order)
    assert set(keys(store.prefix_scan([0, 1]))) == {
        key for key in rows if key[3] == 0 and key[1] == 1
    }
    assert store.get(rows[17]) == (1,)


def test_range_keys_that_differ_only_outside_the_order(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    store = open_provider(shape).load(0)
    names = ["", "a", "b", "ab", "a longer name than the others"]
    for number, name in enumerate(names):
        store.put([7, name], [number])
    assert set(keys(store.range_scan([7, ""], [8, ""]))) == {(7, name) for name in names}
    assert [store.get([7, name]) for name in names] == [(n,) for n in range(len(names))]
    store.remove([7, "a"])
    assert store.get([7, "a"]) is None
    assert len(contents(store)) == len(names) - 1


def test_delete_range(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape, column_families=True)
    entries = [((number, "x"), (number,)) for number in range(-20, 20)]
    assert commit_all(provider, 0, entries) == 1
    store = provider.load(1)
    store.put([100, "x"], [100])
    store.put([-5, "new"], [0])
    store.delete_range([-10, ""], [5, ""])
    expected = [*range(-20, -10), *range(5, 20), 100]
    assert first_column(store.range_scan()) == expected
    assert store.get([-5, "x"]) is None
    assert store.get([-5, "new"]) is None
    assert store.get([5, "x"]) == (5,)
    store.put([0, "x"], [7])
    assert store.get([0, "x"]) == (7,)
    store.delete_range([50, ""], [60, ""])
    store.delete_range([5, ""], [5, ""])
    assert store.commit() == 2
    provider.close()
    fresh = open_provider(shape, column_families=True)
    store = fresh.load(2)
    assert first_column(store.range_scan()) == sorted([*expected, 0])
    store.abort()
    store = fresh.load(1)
    assert len(contents(store)) == 40


def test_delete_range_is_undone_by_abort(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape, column_families=True)
    assert commit_all(provider, 0, [((number, "x"), (1,)) for number in range(10)]) == 1
    store = provider.load(1)
    store.delete_range([2, ""], [8, ""])
    store.abort()
    assert len(contents(provider.load(1))) == 10


@pytest.mark.parametrize("call", ["range_scan", "delete_range"])
def test_ranges_need_an_ordered_encoder(open_provider: Opener, call: str) -> None:
    provider = open_provider(Shape(key="o LONG, s STRING", encoder=Encoder.prefix(1)))
    store = provider.load(0)
    store.put([1, "x"], [1])
    refuses(getattr(store, call), [0, ""], [9, ""])
    assert contents(store) == {(1, "x"): (1,)}


def test_null_bounds_of_delete_range_are_refused(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", encoder=Encoder.range(0))
    store = open_provider(shape).load(0)
    store.put([1, "x"], [1])
    refuses(store.delete_range, None, [9, ""])
    refuses(store.delete_range, [0, ""], None)
    assert contents(store) == {(1, "x"): (1,)}


@pytest.mark.parametrize("column_type", ["STRING", "BINARY", "ARRAY<INT>"])
def test_columns_without_a_fixed_size_cannot_order(open_provider: Opener, column_type: str) -> None:
    shape = Shape(key=f"o {column_type}, s STRING", encoder=Encoder.range(0))
    refuses(lambda: open_provider(shape).load(0))


TIMES = [-(2**40), -1000, -1, 0, 1, 255, 256, 1000, 2**40]


def with_times(store: Store) -> None:
    for time in random.Random(3).sample(TIMES, len(TIMES)):
        for name in ("a", "ab", "b", ""):
            store.put([name, time], [time])


@pytest.mark.parametrize("committed", [False, True])
def test_timestamp_as_prefix_orders_all_keys_by_time(
    open_provider: Opener, committed: bool
) -> None:
    shape = Shape(key="s STRING, t LONG NOT NULL", encoder=TIMESTAMP_PREFIX)
    provider = open_provider(shape)
    store = provider.load(0)
    with_times(store)
    if committed:
        assert store.commit() == 1
        provider.close()
        store = open_provider(shape).load(1)
    found = store.range_scan()
    assert [key[1] for key, _ in found] == [time for time in TIMES for _ in range(4)]
    assert all(value == (key[1],) for key, value in found)
    some = keys(store.range_scan(["", -1], ["", 256]))
    assert [time for _, time in some] == [time for time in (-1, 0, 1, 255) for _ in range(4)]
    assert set(some) == {(name, time) for name in ("a", "ab", "b", "") for time in (-1, 0, 1, 255)}
    assert [time for _, time in keys(store.range_scan(None, ["", 0]))] == [
        time for time in TIMES if time < 0 for _ in range(4)
    ]
    assert store.get(["ab", 255]) == (255,)
    store.remove(["ab", 255])
    assert store.get(["ab", 255]) is None


def test_timestamp_as_prefix_has_no_prefix_scan(open_provider: Opener) -> None:
    shape = Shape(key="s STRING, t LONG NOT NULL", encoder=TIMESTAMP_PREFIX)
    store = open_provider(shape).load(0)
    with_times(store)
    refuses(store.prefix_scan, ["a", 0])


@pytest.mark.parametrize("committed", [False, True])
def test_timestamp_as_postfix_orders_the_times_of_a_key(
    open_provider: Opener, committed: bool
) -> None:
    shape = Shape(key="s STRING, t LONG NOT NULL", encoder=TIMESTAMP_POSTFIX)
    provider = open_provider(shape)
    store = provider.load(0)
    with_times(store)
    if committed:
        assert store.commit() == 1
        provider.close()
        store = open_provider(shape).load(1)
    for name in ("a", "ab", "b", ""):
        assert store.prefix_scan([name]) == [((name, time), (time,)) for time in TIMES]
    assert store.prefix_scan(["missing"]) == []
    found = store.range_scan(["ab", -1], ["ab", 256])
    assert keys(found) == [("ab", time) for time in (-1, 0, 1, 255)]
    store.remove(["ab", 0])
    store.put(["ab", 2], [2])
    found = store.range_scan(["ab", -1], ["ab", 256])
    assert keys(found) == [("ab", time) for time in (-1, 1, 2, 255)]


@pytest.mark.parametrize("encoder", [TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX])
def test_timestamp_keys_with_null_fields(open_provider: Opener, encoder: Encoder) -> None:
    shape = Shape(key="s STRING, n INT, t LONG NOT NULL", encoder=encoder)
    store = open_provider(shape).load(0)
    rows = [("a", 1, 5), (None, 1, 5), ("a", None, 5), (None, None, -5)]
    store.put_all((key, (key[2],)) for key in rows)
    assert contents(store) == {key: (key[2],) for key in rows}
    assert [store.get(key) for key in rows] == [(5,), (5,), (5,), (-5,)]


def test_a_range_scan_stays_valid_while_its_rows_are_removed(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, s STRING", encoder=Encoder.range(0))
    provider = open_provider(shape)
    assert commit_all(provider, 0, [((number, "x"), (1,)) for number in range(200)]) == 1
    store = provider.load(1)
    iterator = store.open_iterator("range_scan", start=None, end=[100, ""])
    seen = []
    while found := iterator.next():
        seen += first_column(found)
        store.remove(found[0][0])
    iterator.close()
    assert seen == list(range(100))
    assert first_column(store.range_scan()) == list(range(100, 200))


def test_many_ordered_keys_through_reload(open_provider: Opener) -> None:
    shape = Shape(key="o LONG, n INT", encoder=Encoder.range(0, 1))
    generator = random.Random(5)
    rows = list(
        {(generator.randrange(-(10**6), 10**6), generator.randrange(8)) for _ in range(8000)}
    )
    provider = open_provider(shape)
    assert commit_all(provider, 0, [(key, (key[1],)) for key in rows[:5000]]) == 1
    assert commit_all(provider, 1, [(key, (key[1],)) for key in rows[5000:]]) == 2
    provider.close()
    store = open_provider(shape).load(2)
    assert keys(store.range_scan()) == sorted(rows)
    low, high = (-300_000, 3), (450_000, 2)
    assert keys(store.range_scan(low, high)) == [key for key in sorted(rows) if low <= key < high]
