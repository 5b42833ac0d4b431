"""Iterators and prefix scans: complete, without leaks between prefixes, safe while changing."""

from __future__ import annotations

import random

from support.expectations import commit_all, contents, refuses, state_at
from support.fixtures import Opener
from support.harness import Encoder, Shape

GROUPED = Shape(key="g STRING, n INT", value="v LONG", encoder=Encoder.prefix(1))


def test_the_iterator_is_complete_over_committed_and_new(open_provider: Opener) -> None:
    generator = random.Random(20240607)
    provider = open_provider(Shape(key="k INT", value="v LONG"))
    expected: dict[tuple[int], tuple[int]] = {}
    for version in range(6):
        store = provider.load(version)
        for _ in range(300):
            key = (generator.randrange(400),)
            if generator.random() < 0.3:
                store.remove(key)
                expected.pop(key, None)
            else:
                expected[key] = (generator.randrange(1 << 40),)
                store.put(key, expected[key])
        assert contents(store) == expected
        assert store.commit() == version + 1
    assert state_at(provider, 6) == expected


def test_removing_under_an_open_iterator(open_provider: Opener) -> None:
    provider = open_provider(Shape(key="k INT", value="v LONG"))
    assert commit_all(provider, 0, [([number], [number]) for number in range(500)]) == 1
    store = provider.load(1)
    store.put_all(([number], [number]) for number in range(500, 600))
    iterator = store.open_iterator()
    seen = []
    while found := iterator.next():
        ((key, value),) = found
        assert key == value
        seen.append(key[0])
        if key[0] % 2 == 0:
            store.remove(key)
    iterator.close()
    assert sorted(seen) == list(range(600))
    assert sorted(key for (key,) in contents(store)) == list(range(1, 600, 2))
    assert store.commit() == 2
    assert len(state_at(provider, 2)) == 300


def test_putting_under_an_open_iterator(open_provider: Opener) -> None:
    provider = open_provider(Shape(key="k INT", value="v LONG"))
    assert commit_all(provider, 0, [([number], [0]) for number in range(300)]) == 1
    store = provider.load(1)
    iterator = store.open_iterator()
    seen = []
    while found := iterator.next(7):
        for key, value in found:
            # Rows that were there when the iterator was opened come once; added ones may come.
            if key[0] < 300:
                seen.append(key[0])
                assert value in {(0,), (1,)}
                store.put(key, [1])
                store.put([key[0] + 1000], [2])
            else:
                assert value == (2,)
    iterator.close()
    assert sorted(seen) == list(range(300))
    after = contents(store)
    assert len(after) == 600
    assert all(value == ((1,) if key[0] < 300 else (2,)) for key, value in after.items())
    assert store.commit() == 2
    assert state_at(provider, 2) == after


def test_an_iterator_may_be_dropped_half_way(open_provider: Opener) -> None:
    provider = open_provider(Shape(key="k INT", value="v LONG"))
    assert commit_all(provider, 0, [([number], [number]) for number in range(50)]) == 1
    store = provider.load(1)
    iterator = store.open_iterator()
    assert len(iterator.next(10)) == 10
    iterator.close()
    assert len(store.iterate()) == 50
    store.put([50], [50])
    assert store.commit() == 2


def test_two_iterators_at_once(open_provider: Opener) -> None:
    provider = open_provider(Shape(key="k INT", value="v LONG"))
    assert commit_all(provider, 0, [([number], [number]) for number in range(20)]) == 1
    store = provider.load(1)
    left, right = store.open_iterator(), store.open_iterator()
    left_seen, right_seen = left.next(5), right.next(12)
    left_seen += left.next(100)
    right_seen += right.next(100)
    assert sorted(left_seen) == sorted(right_seen) == [((n,), (n,)) for n in range(20)]


def test_prefix_scan_gives_exactly_the_group(open_provider: Opener) -> None:
    groups = {"": 2, "a": 3, "ab": 2, "abc": 4, "b": 1, "A": 1, "a\u0000": 2}
    provider = open_provider(GROUPED)
    entries = [((group, n), (n * 10,)) for group, size in groups.items() for n in range(size)]
    assert commit_all(provider, 0, entries) == 1
    store = provider.load(1)
    for group, size in groups.items():
        assert sorted(store.prefix_scan([group])) == [((group, n), (n * 10,)) for n in range(size)]
    assert store.prefix_scan(["missing"]) == []
    assert store.prefix_scan(["abcd"]) == []
    assert len(contents(store)) == sum(groups.values())


def test_prefix_scan_of_a_null_group(open_provider: Opener) -> None:
    store = open_provider(GROUPED).load(0)
    store.put([None, 1], [1])
    store.put(["", 1], [2])
    store.put(["null", 1], [3])
    assert store.prefix_scan([None]) == [((None, 1), (1,))]
    assert store.prefix_scan([""]) == [(("", 1), (2,))]


def test_prefix_scan_sees_what_is_not_committed(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    entries = [((group, n), (0,)) for group in "abc" for n in range(4)]
    assert commit_all(provider, 0, entries) == 1
    store = provider.load(1)
    store.put(["b", 7], [7])
    store.put(["b", 1], [1])
    store.remove(["b", 2])
    store.remove(["a", 0])
    assert sorted(store.prefix_scan(["b"])) == [
        (("b", 0), (0,)),
        (("b", 1), (1,)),
        (("b", 3), (0,)),
        (("b", 7), (7,)),
    ]
    assert [key[1] for key, _ in sorted(store.prefix_scan(["a"]))] == [1, 2, 3]
    assert store.commit() == 2
    provider.close()
    store = open_provider(GROUPED).load(2)
    assert [key[1] for key, _ in sorted(store.prefix_scan(["b"]))] == [0, 1, 3, 7]


def test_a_group_that_was_emptied(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    assert commit_all(provider, 0, [(("a", 1), (1,)), (("a", 2), (2,)), (("b", 1), (3,))]) == 1
    store = provider.load(1)
    store.remove(["a", 1])
    store.remove(["a", 2])
    assert store.prefix_scan(["a"]) == []
    assert store.commit() == 2
    store = provider.load(2)
    assert store.prefix_scan(["a"]) == []
    store.put(["a", 3], [4])
    assert store.prefix_scan(["a"]) == [(("a", 3), (4,))]
    store.abort()
    store = provider.load(1)
    assert len(store.prefix_scan(["a"])) == 2


def test_prefix_of_two_columns(open_provider: Opener) -> None:
    shape = Shape(key="a INT, b STRING, c LONG", value="v LONG", encoder=Encoder.prefix(2))
    store = open_provider(shape).load(0)
    for first in (-1, 0, 1):
        for second in ("x", "xy", ""):
            for third in (-5, 0, 5):
                store.put([first, second, third], [third])
    assert sorted(store.prefix_scan([0, "x"])) == [((0, "x", n), (n,)) for n in (-5, 0, 5)]
    assert sorted(store.prefix_scan([-1, ""])) == [((-1, "", n), (n,)) for n in (-5, 0, 5)]
    assert store.get([1, "xy", 5]) == (5,)


def test_removing_a_group_while_it_is_scanned(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    entries = [((group, n), (n,)) for group in ("a", "b") for n in range(40)]
    assert commit_all(provider, 0, entries) == 1
    store = provider.load(1)
    for key, _ in store.prefix_scan(["a"]):
        store.remove(key)
        store.put(["c", key[1]], [0])
    assert store.prefix_scan(["a"]) == []
    assert len(store.prefix_scan(["b"])) == 40
    assert len(store.prefix_scan(["c"])) == 40
    assert store.commit() == 2


def test_prefix_scan_without_a_prefix_encoder_is_refused(open_provider: Opener) -> None:
    store = open_provider(Shape(key="g STRING, n INT")).load(0)
    store.put(["a", 1], [1])
    refuses(store.prefix_scan, ["a", 1])


def test_prefix_scan_through_a_read_store(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    assert commit_all(provider, 0, [(("a", 1), (1,)), (("b", 1), (2,))]) == 1
    reader = provider.load_read(1)
    assert reader.prefix_scan(["a"]) == [(("a", 1), (1,))]
    reader.release()
