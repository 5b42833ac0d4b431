"""Single keys and values: a get returns the value put, of every type and size, until removed."""

from __future__ import annotations

import base64

import pytest
from support.expectations import commit_all, contents, refuses, state_at
from support.fixtures import Opener
from support.harness import Shape

LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 4095, 4096, 65536)


def test_empty_store(open_provider: Opener) -> None:
    store = open_provider().load(0)
    assert store.version() == 0
    assert store.get(["missing"]) is None
    assert store.key_exists(["missing"]) is False
    assert store.iterate() == []
    assert store.has_committed() is False


def test_put_get_overwrite_remove(open_provider: Opener) -> None:
    store = open_provider().load(0)
    store.put(["a"], [1])
    store.put(["b"], [2])
    assert store.get(["a"]) == (1,)
    assert store.get(["b"]) == (2,)
    assert store.key_exists(["a"]) is True
    store.put(["a"], [3])
    assert store.get(["a"]) == (3,)
    store.remove(["a"])
    assert store.get(["a"]) is None
    assert store.key_exists(["a"]) is False
    assert contents(store) == {("b",): (2,)}
    store.put(["a"], [4])
    assert contents(store) == {("a",): (4,), ("b",): (2,)}


def test_remove_of_a_missing_key_changes_nothing(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    store.remove(["b"])
    assert store.commit() == 1
    assert state_at(provider, 1) == {("a",): (1,)}


def test_the_empty_key_and_similar_keys_are_different(open_provider: Opener) -> None:
    keys = ["", " ", "a", "A", "a ", "aa", "ab", "a\u0000", "\u0000", "é", "日本"]
    store = open_provider().load(0)
    store.put_all(([key], [number]) for number, key in enumerate(keys))
    assert [store.get([key]) for key in keys] == [(number,) for number in range(len(keys))]
    assert len(contents(store)) == len(keys)


def test_null_fields_in_keys_and_values(open_provider: Opener) -> None:
    shape = Shape(key="a STRING, b LONG", value="x STRING, y LONG")
    keys = [("k", 1), ("k", None), (None, 1), (None, None), ("", 1), ("", None), ("k", 0)]
    provider = open_provider(shape)
    store = provider.load(0)
    for number, key in enumerate(keys):
        store.put(key, [None, number] if number % 2 else [str(number), None])
    expected = {
        key: (None, number) if number % 2 else (str(number), None)
        for number, key in enumerate(keys)
    }
    assert contents(store) == expected
    assert {key: store.get(key) for key in keys} == expected
    store.remove((None, None))
    del expected[(None, None)]
    assert store.commit() == 1
    assert state_at(provider, 1) == expected


def test_strings_of_many_lengths(open_provider: Opener) -> None:
    expected = {("k" * length,): ("v" * (length + 1),) for length in LENGTHS}
    provider = open_provider(Shape(value="v STRING"))
    assert commit_all(provider, 0, expected.items()) == 1
    provider.close()
    assert state_at(open_provider(Shape(value="v STRING")), 1) == expected


def test_a_value_that_grows_and_shrinks(open_provider: Opener) -> None:
    provider = open_provider(Shape(value="v STRING"))
    for version, length in enumerate((1, 5000, 10, 0, 70000, 3)):
        store = provider.load(version)
        store.put(["same"], ["x" * length])
        assert store.get(["same"]) == ("x" * length,)
        assert store.commit() == version + 1
    for version, length in enumerate((1, 5000, 10, 0, 70000, 3)):
        assert state_at(provider, version + 1) == {("same",): ("x" * length,)}


def test_binary_of_many_lengths(open_provider: Opener) -> None:
    shape = Shape(key="k BINARY", value="v BINARY")
    blobs = [bytes(index % 256 for index in range(length)) for length in LENGTHS[:-1]]
    store = open_provider(shape).load(0)
    for blob in blobs:
        store.put([blob], [blob[::-1]])
    for blob in blobs:
        assert base64.b64decode(store.get([blob])[0]) == blob[::-1]
    assert len(contents(store)) == len(blobs)


def test_all_primitive_types(open_provider: Opener) -> None:
    columns = "b BYTE, h SHORT, i INT, l LONG, f FLOAT, d DOUBLE, t BOOLEAN, s STRING"
    rows = [
        (-128, -32768, -(2**31), -(2**63), -0.5, -1e300, False, ""),
        (127, 32767, 2**31 - 1, 2**63 - 1, 0.25, 1e-300, True, "text"),
        (0, 0, 0, 0, 0.0, 0.0, False, "0"),
        (None,) * 8,
    ]
    provider = open_provider(Shape(key=columns, value=columns))
    expected = dict(zip(rows, reversed(rows), strict=True))
    assert commit_all(provider, 0, expected.items()) == 1
    provider.close()
    assert state_at(open_provider(Shape(key=columns, value=columns)), 1) == expected


def test_nested_values(open_provider: Opener) -> None:
    shape = Shape(
        key="window STRUCT<start: LONG, end: LONG>, name STRING",
        value="items ARRAY<LONG>, inner STRUCT<a: STRING, b: ARRAY<STRING>>",
    )
    expected = {
        ((0, 10), "a"): ((1, 2, 3), ("x", ("p", "q"))),
        ((0, 10), "b"): ((), (None, ())),
        ((10, 20), "a"): (None, None),
    }
    provider = open_provider(shape)
    assert commit_all(provider, 0, expected.items()) == 1
    assert state_at(provider, 1) == expected


def test_wide_rows(open_provider: Opener) -> None:
    width = 200
    shape = Shape(
        key=", ".join(f"k{index} LONG" for index in range(width)),
        value=", ".join(f"v{index} STRING" for index in range(width)),
    )
    expected = {
        tuple(range(shift, shift + width)): tuple(
            None if index % 7 == shift else f"value {index}" for index in range(width)
        )
        for shift in range(5)
    }
    provider = open_provider(shape)
    assert commit_all(provider, 0, expected.items()) == 1
    assert state_at(provider, 1) == expected


def test_large_values(open_provider: Opener) -> None:
    provider = open_provider(Shape(value="v STRING"))
    expected = {(f"k{number}",): (chr(97 + number) * (1 << 20),) for number in range(6)}
    assert commit_all(provider, 0, expected.items()) == 1
    store = provider.load(1)
    store.put(["k3"], ["small"])
    store.remove(["k4"])
    assert store.commit() == 2
    assert state_at(provider, 1) == expected
    provider.close()
    expected[("k3",)] = ("small",)
    del expected[("k4",)]
    assert state_at(open_provider(Shape(value="v STRING")), 2) == expected


def test_a_hundred_thousand_keys(open_provider: Opener) -> None:
    shape = Shape(key="k LONG, s STRING", value="v LONG")
    count = 100_000
    provider = open_provider(shape)
    expected = {(number * 7919, f"s{number % 13}"): (number,) for number in range(count)}
    assert commit_all(provider, 0, expected.items()) == 1
    store = provider.load(1)
    changed = [(number * 7919, f"s{number % 13}") for number in range(0, count, 10)]
    store.put_all((key, [-1]) for key in changed)
    assert store.commit() == 2
    provider.close()

    fresh = open_provider(shape)
    assert state_at(fresh, 1) == expected
    expected.update((key, (-1,)) for key in changed)
    assert state_at(fresh, 2) == expected


def test_multi_get_keeps_the_order_of_the_keys(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1]), (["b"], [2]), (["c"], [3])]) == 1
    store = provider.load(1)
    store.put(["d"], [4])
    store.remove(["b"])
    keys = [["c"], ["missing"], ["a"], ["b"], ["d"], ["a"]]
    assert store.multi_get(keys) == [(3,), None, (1,), None, (4,), (1,)]
    assert store.multi_get([]) == []


@pytest.mark.parametrize("call", ["get", "remove", "key_exists"])
def test_a_null_key_is_refused(open_provider: Opener, call: str) -> None:
    store = open_provider().load(0)
    refuses(getattr(store, call), None)
    store.put(["a"], [1])
    assert contents(store) == {("a",): (1,)}


def test_a_null_key_or_value_cannot_be_put(open_provider: Opener) -> None:
    store = open_provider().load(0)
    refuses(store.put, None, [1])
    refuses(store.put, ["a"], None)
    assert contents(store) == {}


def test_two_partitions_are_independent(open_provider: Opener) -> None:
    left, right = open_provider(partition=0), open_provider(partition=1)
    left_store, right_store = left.load(0), right.load(0)
    left_store.put(["a"], [1])
    right_store.put(["a"], [2])
    right_store.put(["b"], [3])
    assert left_store.get(["b"]) is None
    assert (left_store.commit(), right_store.commit()) == (1, 1)
    assert state_at(left, 1) == {("a",): (1,)}
    assert state_at(right, 1) == {("a",): (2,), ("b",): (3,)}


def test_two_stores_of_a_partition_are_independent(open_provider: Opener) -> None:
    left = open_provider(store_name="left-keyToNumValues")
    right = open_provider(store_name="right-keyToNumValues")
    assert commit_all(left, 0, [(["a"], [1])]) == 1
    assert commit_all(right, 0, [(["b"], [2])]) == 1
    left.close()
    right.close()
    assert state_at(open_provider(store_name="left-keyToNumValues"), 1) == {("a",): (1,)}
    assert state_at(open_provider(store_name="right-keyToNumValues"), 1) == {("b",): (2,)}
