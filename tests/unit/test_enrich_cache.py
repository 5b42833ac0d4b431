"""The cache of an enrichment: the order in which it drops entries, and its budget."""

from __future__ import annotations

import random

import pytest
from support.seeds import SEED

from tailrace.enrich.cache import (
    CACHES,
    Cache,
    ClockCache,
    Entry,
    LruCache,
    TimestampCache,
    size_of,
)

FOREVER = float("inf")
SIZE = Entry("a", ("x",), 0, FOREVER).size


def entry(key: str, time: int, expires: float = FOREVER) -> Entry:
    return Entry(key, ("x",), time, expires)


def cache(entries: int) -> TimestampCache:
    return TimestampCache(entries * SIZE)


def held(it: Cache, *keys: str) -> list[str]:
    return [key for key in keys if it.get(key, 0, 0) is not None]


def test_the_entry_with_the_earliest_time_is_dropped_first() -> None:
    it = cache(2)
    for key, time in (("b", 20), ("a", 10), ("c", 30)):
        it.put(entry(key, time))
    assert held(it, "a", "b", "c") == ["b", "c"]
    assert it.evicted == 1


def test_an_entry_read_ahead_outlives_one_that_was_used_later() -> None:
    it = cache(2)
    it.put(entry("a", 100))  # its rows are still to come
    it.put(entry("b", 50))
    it.put(entry("c", 60))
    assert held(it, "a", "b", "c") == ["a", "c"]


def test_an_entry_that_is_expected_again_moves_back_in_the_order() -> None:
    it = cache(2)
    it.put(entry("a", 10))
    it.put(entry("b", 20))
    assert it.get("a", 0, 30) is not None
    it.put(entry("c", 25))
    assert held(it, "a", "b", "c") == ["a", "c"]


def test_a_late_row_does_not_move_an_entry_forward() -> None:
    it = cache(2)
    it.put(entry("a", 10))
    it.put(entry("b", 20))
    assert it.get("b", 0, 5) is not None
    it.put(entry("c", 30))
    assert held(it, "a", "b", "c") == ["b", "c"]


def test_an_entry_that_is_the_earliest_itself_does_not_stay() -> None:
    it = cache(1)
    it.put(entry("a", 10))
    late = entry("b", 5)
    it.put(late)
    assert held(it, "a", "b") == ["a"]
    assert late.values == ("x",)


def test_an_expired_entry_is_dropped() -> None:
    it = cache(2)
    it.put(entry("a", 10, expires=100.0))
    assert it.get("a", 99.9, 0) is not None
    assert it.get("a", 100.0, 0) is None
    assert (len(it), it.bytes, it.expired) == (0, 0, 1)


def test_a_newer_entry_takes_the_place_of_one_with_its_key() -> None:
    it = cache(2)
    it.put(entry("a", 10))
    again = Entry("a", ("y",), 5, FOREVER)
    it.put(again)
    found = it.get("a", 0, 0)
    assert found is again
    assert (len(it), it.bytes, found.time) == (1, SIZE, 10)


def test_the_bytes_are_those_of_all_that_is_in_a_value() -> None:
    assert size_of("x" * 1000) > 1000
    assert size_of(["x" * 1000, {"k": "y" * 1000}]) > 2000
    assert Entry("k", None, 0, FOREVER).size < Entry("k", ("x",), 0, FOREVER).size


def test_random_histories_drop_what_a_sorted_list_drops() -> None:
    print(f"TAILRACE_SEED={SEED}")
    draw = random.Random(SEED)
    for _ in range(50):
        limit = draw.randrange(1, 12)
        it = cache(limit)
        model: dict[str, tuple[int, int]] = {}
        for number in range(300):
            key, time = chr(97 + draw.randrange(20)), draw.randrange(100)
            if draw.random() < 0.5:
                found = it.get(key, 0, time)
                assert (found is not None) == (key in model)
                if found is not None:
                    model[key] = (max(model[key][0], time), model[key][1])
            else:
                it.put(entry(key, time))
                model[key] = (max(time, model.get(key, (0, 0))[0]), number)
                if len(model) > limit:
                    del model[min(model, key=model.__getitem__)]
            assert it.bytes == len(model) * SIZE <= limit * SIZE


def test_the_entry_that_was_used_least_recently_is_dropped_first() -> None:
    it = LruCache(2 * SIZE)
    it.put(entry("a", 30))
    it.put(entry("b", 20))
    assert it.get("a", 0, 0) is not None
    it.put(entry("c", 10))  # its time does not count
    assert held(it, "a", "b", "c") == ["a", "c"]


def test_an_entry_that_was_used_is_passed_once_by_the_clock() -> None:
    it = ClockCache(3 * SIZE)
    for key in "abc":
        it.put(entry(key, 0))
    assert it.get("a", 0, 0) is not None
    it.put(entry("d", 0))
    it.put(entry("e", 0))
    assert list(it._entries) == ["a", "d", "e"], "b and c went, a was passed"
    for key in "fg":
        it.put(entry(key, 0))
    assert list(it._entries) == ["e", "f", "g"], "a was not used again"


@pytest.mark.parametrize("name", CACHES)
def test_every_cache_keeps_its_budget_and_finds_what_it_keeps(name: str) -> None:
    print(f"TAILRACE_SEED={SEED}")
    draw = random.Random(SEED)
    it = CACHES[name](7 * SIZE)
    for time in range(5_000):
        key = chr(97 + draw.randrange(20))
        found = it.get(key, now=float(time), time=time)
        if found is None:
            it.put(entry(key, time, expires=time + draw.randrange(1, 60)))
        else:
            assert found.expires > time
        assert it.bytes == len(it) * SIZE <= 7 * SIZE
    assert it.evicted > 0
    assert it.expired > 0
