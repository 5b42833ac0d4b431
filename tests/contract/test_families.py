"""Column families: one store, several independent maps, each with its own schema and order."""

from __future__ import annotations

import pytest
from support.expectations import Capability, contents, needs, refuses
from support.fixtures import Opener
from support.harness import Encoder, Shape

pytestmark = needs(Capability.COLUMN_FAMILIES)

COUNTS = Shape(key="k STRING", value="v LONG")
NAMES = Shape(key="k STRING", value="v STRING")
TIMERS = Shape(key="t LONG, k STRING", value="v LONG", encoder=Encoder.range(0))


def test_the_same_key_in_two_families(open_provider: Opener) -> None:
    store = open_provider(column_families=True).load(0)
    store.create_family("counts", COUNTS)
    store.create_family("names", NAMES)
    store.put(["a"], [1])
    store.put(["a"], [2], "counts")
    store.put(["a"], ["three"], "names")
    assert store.get(["a"]) == (1,)
    assert store.get(["a"], "counts") == (2,)
    assert store.get(["a"], "names") == ("three",)
    store.remove(["a"], "counts")
    assert store.get(["a"]) == (1,)
    assert store.get(["a"], "counts") is None
    assert contents(store, "names") == {("a",): ("three",)}
    assert contents(store, "counts") == {}
    assert store.family_names() == {"default", "counts", "names"}


def test_creating_twice_keeps_the_data(open_provider: Opener) -> None:
    store = open_provider(column_families=True).load(0)
    store.create_family("counts", COUNTS)
    store.put(["a"], [1], "counts")
    store.create_family("counts", COUNTS)
    assert store.get(["a"], "counts") == (1,)


def test_families_survive_a_restart(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("counts", COUNTS)
    store.create_family("timers", TIMERS)
    store.put(["a"], [1])
    store.put(["b"], [2], "counts")
    for time in (30, -10, 20):
        store.put([time, "c"], [time], "timers")
    assert store.commit() == 1
    store = provider.load(1)
    store.create_family("counts", COUNTS)
    store.create_family("timers", TIMERS)
    store.put(["b2"], [3], "counts")
    assert store.commit() == 2
    provider.close()

    fresh = open_provider(column_families=True)
    store = fresh.load(2)
    # A restarted operator registers its families again, perhaps in another order.
    store.create_family("timers", TIMERS)
    store.create_family("counts", COUNTS)
    assert contents(store) == {("a",): (1,)}
    assert contents(store, "counts") == {("b",): (2,), ("b2",): (3,)}
    assert [key for key, _ in store.range_scan(family="timers")] == [
        (-10, "c"),
        (20, "c"),
        (30, "c"),
    ]
    store.put([5, "c"], [5], "timers")
    assert store.commit() == 3
    store = fresh.load(1)
    store.create_family("timers", TIMERS)
    store.create_family("counts", COUNTS)
    assert contents(store, "counts") == {("b",): (2,)}


def test_a_family_added_in_a_later_version(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.put(["a"], [1])
    assert store.commit() == 1
    store = provider.load(1)
    store.create_family("counts", COUNTS)
    store.put(["b"], [2], "counts")
    assert store.commit() == 2
    provider.close()
    store = open_provider(column_families=True).load(2)
    store.create_family("counts", COUNTS)
    assert contents(store) == {("a",): (1,)}
    assert contents(store, "counts") == {("b",): (2,)}


def test_a_family_made_in_an_aborted_batch_is_empty_when_made_again(
    open_provider: Opener,
) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("counts", COUNTS)
    store.put(["a"], [1], "counts")
    store.abort()
    store = provider.load(0)
    store.create_family("counts", COUNTS)
    assert contents(store, "counts") == {}
    store.put(["b"], [2], "counts")
    assert store.commit() == 1
    store = provider.load(1)
    store.create_family("counts", COUNTS)
    assert contents(store, "counts") == {("b",): (2,)}


def test_removing_a_family(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("counts", COUNTS)
    store.create_family("names", NAMES)
    store.put(["a"], [1], "counts")
    store.put(["a"], ["x"], "names")
    assert store.commit() == 1

    store = provider.load(1)
    store.create_family("counts", COUNTS)
    store.create_family("names", NAMES)
    assert store.remove_family("counts") is True
    assert store.remove_family("counts") is False
    assert store.remove_family("never made") is False
    assert store.family_names() == {"default", "names"}
    refuses(store.get, ["a"], "counts")
    store.create_family("counts", COUNTS)
    assert contents(store, "counts") == {}
    store.put(["b"], [2], "counts")
    assert store.commit() == 2
    provider.close()

    fresh = open_provider(column_families=True)
    store = fresh.load(2)
    store.create_family("counts", COUNTS)
    store.create_family("names", NAMES)
    assert contents(store, "counts") == {("b",): (2,)}
    assert contents(store, "names") == {("a",): ("x",)}
    store.abort()
    store = fresh.load(1)
    store.create_family("counts", COUNTS)
    store.create_family("names", NAMES)
    assert contents(store, "counts") == {("a",): (1,)}


@pytest.mark.parametrize("name", ["", " ", " lead", "trail ", "default", "$reserved"])
def test_names_that_cannot_be_used(open_provider: Opener, name: str) -> None:
    store = open_provider(column_families=True).load(0)
    refuses(store.create_family, name, COUNTS)
    refuses(store.remove_family, name)
    assert store.family_names() == {"default"}


@pytest.mark.parametrize("name", ["a", "with space", "ünï", "x" * 300, "__", "a.b/c:d"])
def test_names_that_can_be_used(open_provider: Opener, name: str) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family(name, COUNTS)
    store.put(["a"], [1], name)
    assert store.commit() == 1
    provider.close()
    store = open_provider(column_families=True).load(1)
    store.create_family(name, COUNTS)
    assert contents(store, name) == {("a",): (1,)}


def test_internal_families_may_use_the_reserved_names(open_provider: Opener) -> None:
    store = open_provider(column_families=True).load(0)
    store.create_family("$index", COUNTS, internal=True)
    store.put(["a"], [1], "$index")
    assert store.get(["a"], "$index") == (1,)


def test_an_unknown_family_is_refused(open_provider: Opener) -> None:
    store = open_provider(column_families=True).load(0)
    refuses(store.put, ["a"], [1], "unknown")
    refuses(store.get, ["a"], "unknown")
    refuses(store.remove, ["a"], "unknown")
    refuses(store.iterate, "unknown")
    refuses(store.key_exists, ["a"], "unknown")
    refuses(store.multi_get, [["a"]], "unknown")


def test_a_read_store_registers_families(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("counts", COUNTS)
    store.put(["a"], [1], "counts")
    assert store.commit() == 1
    provider.close()
    reader = open_provider(column_families=True).load_read(1)
    reader.register_family("counts", COUNTS)
    assert reader.get(["a"], "counts") == (1,)
    assert reader.iterate("counts") == [(("a",), (1,))]
    reader.release()


def test_twenty_families(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    names = [f"family {number}" for number in range(20)]
    for version in range(3):
        store = provider.load(version)
        for number, name in enumerate(names):
            store.create_family(name, COUNTS)
            store.put([f"k{version}"], [number], name)
        assert store.commit() == version + 1
    provider.close()
    store = open_provider(column_families=True).load(3)
    for name in reversed(names):
        store.create_family(name, COUNTS)
    for number, name in enumerate(names):
        assert contents(store, name) == {(f"k{version}",): (number,) for version in range(3)}


def test_families_need_to_be_switched_on(open_provider: Opener) -> None:
    store = open_provider(column_families=False).load(0)
    refuses(store.create_family, "counts", COUNTS)
    refuses(store.remove_family, "counts")
    refuses(store.put, ["a"], [1], "counts")
    refuses(store.get, ["a"], "counts")
    store.put(["a"], [1])
    assert store.get(["a"]) == (1,)
