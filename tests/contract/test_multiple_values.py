"""Several values under a key: kept in the order of arrival, replaced or removed as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from support.expectations import Capability, needs, refuses
from support.fixtures import Opener
from support.harness import (
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
    Encoder,
    Shape,
    Store,
)

pytestmark = needs(Capability.COLUMN_FAMILIES, Capability.MULTIPLE_VALUES)

LISTS = Shape(key="k STRING", value="v STRING", multiple_values=True)


def grouped(found: Sequence[tuple[object, object]]) -> dict[object, list[object]]:
    """The values of each key in their order; a key's values must come together."""
    groups: dict[object, list[object]] = {}
    previous: object = None
    for key, value in found:
        assert key == previous or key not in groups, f"the values of {key} are scattered"
        groups.setdefault(key, []).append(value)
        previous = key
    return groups


def with_lists(opener: Opener, version: int = 0) -> Store:
    store = opener(column_families=True).load(version)
    store.create_family("lists", LISTS)
    return store


def test_merge_keeps_the_order(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    for number in range(50):
        store.merge(["a"], [f"{number}"], "lists")
        store.merge(["b"], [f"-{number}"], "lists")
    assert store.values(["a"], "lists") == [(f"{number}",) for number in range(50)]
    assert store.values(["b"], "lists") == [(f"-{number}",) for number in range(50)]


def test_a_missing_key_has_no_values(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    assert store.values(["a"], "lists") == []
    assert store.key_exists(["a"], "lists") is False
    assert store.iterate_multiple("lists") == []


def test_put_list_replaces(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    store.merge(["a"], ["old"], "lists")
    store.put_list(["a"], [["x"], ["y"], ["z"]], "lists")
    assert store.values(["a"], "lists") == [("x",), ("y",), ("z",)]
    store.put_list(["a"], [["only"]], "lists")
    assert store.values(["a"], "lists") == [("only",)]
    store.merge(["a"], ["more"], "lists")
    assert store.values(["a"], "lists") == [("only",), ("more",)]


def test_put_replaces_by_one(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    store.put_list(["a"], [["x"], ["y"]], "lists")
    store.put(["a"], ["one"], "lists")
    assert store.values(["a"], "lists") == [("one",)]
    store.merge(["a"], ["two"], "lists")
    assert store.values(["a"], "lists") == [("one",), ("two",)]
    assert store.get(["a"], "lists") == ("one",)


def test_merge_list_appends(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    store.merge_list(["a"], [["1"], ["2"]], "lists")
    store.merge_list(["a"], [["3"]], "lists")
    store.merge(["a"], ["4"], "lists")
    store.merge_list(["a"], [["5"], ["6"]], "lists")
    assert store.values(["a"], "lists") == [(str(number),) for number in range(1, 7)]


def test_values_of_all_lengths_and_nulls(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("lists", LISTS)
    texts = ["", None, ",", "a,b", "x" * 1000, "\u0000", None, "last"]
    for text in texts:
        store.merge(["a"], [text], "lists")
    assert store.commit() == 1
    provider.close()
    store = with_lists(open_provider, 1)
    assert store.values(["a"], "lists") == [(text,) for text in texts]


def test_remove_takes_all_values(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    store.put_list(["a"], [["x"], ["y"]], "lists")
    store.put_list(["b"], [["z"]], "lists")
    store.remove(["a"], "lists")
    assert store.values(["a"], "lists") == []
    assert store.key_exists(["a"], "lists") is False
    store.merge(["a"], ["new"], "lists")
    assert store.values(["a"], "lists") == [("new",)]
    assert store.values(["b"], "lists") == [("z",)]


def test_merges_across_versions(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    for version in range(6):
        store = provider.load(version)
        store.create_family("lists", LISTS)
        store.merge(["a"], [f"{version}"], "lists")
        store.merge_list(["b"], [[f"{version}"], [f"{version}'"]], "lists")
        if version == 3:
            store.remove(["b"], "lists")
        assert store.commit() == version + 1
    provider.close()
    store = with_lists(open_provider, 6)
    assert store.values(["a"], "lists") == [(f"{version}",) for version in range(6)]
    assert store.values(["b"], "lists") == [("4",), ("4'",), ("5",), ("5'",)]
    store.abort()
    store = with_lists(open_provider, 3)
    assert store.values(["a"], "lists") == [("0",), ("1",), ("2",)]
    assert len(store.values(["b"], "lists")) == 6


def test_abort_takes_back_merges(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("lists", LISTS)
    store.merge(["a"], ["1"], "lists")
    assert store.commit() == 1
    store = provider.load(1)
    store.create_family("lists", LISTS)
    store.merge(["a"], ["2"], "lists")
    store.merge(["b"], ["2"], "lists")
    store.abort()
    store = provider.load(1)
    store.create_family("lists", LISTS)
    assert store.values(["a"], "lists") == [("1",)]
    assert store.values(["b"], "lists") == []


def test_the_version_before_a_merge_loads_again(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    for version, text in ((0, "1"), (1, "first"), (1, "second")):
        store = provider.load(version)
        store.create_family("lists", LISTS)
        store.merge(["a"], [text], "lists")
        assert store.commit() == version + 1
    store = provider.load(2)
    store.create_family("lists", LISTS)
    assert store.values(["a"], "lists") == [("1",), ("second",)]


def test_iterate_with_multiple_values(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    expected = {(f"k{n}",): [(f"{n}.{m}",) for m in range(n % 5 + 1)] for n in range(40)}
    for key, values in expected.items():
        store.put_list(key, values, "lists")
    assert grouped(store.iterate_multiple("lists")) == expected


def test_prefix_scan_with_multiple_values(open_provider: Opener) -> None:
    shape = Shape(
        key="g STRING, n INT", value="v LONG", encoder=Encoder.prefix(1), multiple_values=True
    )
    store = open_provider(column_families=True).load(0)
    store.create_family("groups", shape)
    for group in ("a", "ab", ""):
        for number in range(3):
            store.merge([group, number], [number], "groups")
            store.merge([group, number], [number + 10], "groups")
    for group in ("a", "ab", ""):
        assert grouped(store.prefix_scan_multiple([group], "groups")) == {
            (group, number): [(number,), (number + 10,)] for number in range(3)
        }
    assert store.prefix_scan_multiple(["b"], "groups") == []


def test_timestamped_keys_with_multiple_values(open_provider: Opener) -> None:
    by_key = Shape(
        key="k STRING, t LONG NOT NULL",
        value="v STRING",
        encoder=TIMESTAMP_POSTFIX,
        multiple_values=True,
    )
    by_time = Shape(
        key="k STRING, t LONG NOT NULL",
        value="v STRING",
        encoder=TIMESTAMP_PREFIX,
        multiple_values=True,
    )
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("by key", by_key)
    store.create_family("by time", by_time)
    for time in (30, -10, 20):
        for key in ("a", "ab"):
            for family in ("by key", "by time"):
                store.merge([key, time], [f"{key}{time}"], family)
                store.merge([key, time], ["again"], family)
    assert store.commit() == 1
    provider.close()
    store = open_provider(column_families=True).load(1)
    store.create_family("by key", by_key)
    store.create_family("by time", by_time)
    assert store.prefix_scan_multiple(["a"], "by key") == [
        (("a", time), (text,)) for time in (-10, 20, 30) for text in (f"a{time}", "again")
    ]
    found = store.range_scan_multiple(["", -10], ["", 30], "by time")
    assert [key[1] for key, _ in found] == [-10] * 4 + [20] * 4
    assert grouped(found) == {
        (key, time): [(f"{key}{time}",), ("again",)] for time in (-10, 20) for key in ("a", "ab")
    }
    assert store.range_scan_multiple(["a", 20], ["a", 30], "by key") == [
        (("a", 20), ("a20",)),
        (("a", 20), ("again",)),
    ]


def test_single_valued_families_refuse_lists(open_provider: Opener) -> None:
    store = open_provider(column_families=True).load(0)
    store.put(["a"], [1])
    refuses(store.merge, ["a"], [2])
    refuses(store.merge_list, ["a"], [[2]])
    refuses(store.put_list, ["a"], [[2]])
    refuses(store.values, ["a"])
    refuses(store.iterate_multiple)
    assert store.get(["a"]) == (1,)


def test_null_arguments_are_refused(open_provider: Opener) -> None:
    store = with_lists(open_provider)
    refuses(store.merge, None, ["x"], "lists")
    refuses(store.merge, ["a"], None, "lists")
    refuses(store.merge_list, ["a"], None, "lists")
    refuses(store.merge_list, ["a"], [["x"], None], "lists")
    refuses(store.put_list, None, [["x"]], "lists")
    refuses(store.put_list, ["a"], None, "lists")
    refuses(store.put_list, ["a"], [["x"], None], "lists")
    refuses(store.values, None, "lists")
    assert store.iterate_multiple("lists") == []


def test_a_long_list(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("lists", LISTS)
    expected = [(f"value {number}",) for number in range(20_000)]
    store.put_list(["a"], expected[:10_000], "lists")
    store.merge_list(["a"], expected[10_000:], "lists")
    assert store.commit() == 1
    provider.close()
    store = with_lists(open_provider, 1)
    assert store.values(["a"], "lists") == expected
