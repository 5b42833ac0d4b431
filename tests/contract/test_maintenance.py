"""Metrics are true, and files are deleted when no retained version needs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.expectations import Capability, commit_all, needs, refuses, state_at
from support.fixtures import Opener
from support.harness import Encoder, Shape

RETAIN_TWO = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.tailrace.maxDeltas": "2",
}


def files_below(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


def test_the_number_of_keys(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put_all(([f"k{number}"], [number]) for number in range(100))
    store.put(["k1"], [-1])
    store.remove(["k2"])
    store.remove(["missing"])
    assert store.commit() == 1
    assert store.metrics()["num_keys"] == 99
    store = provider.load(1)
    store.remove(["k3"])
    store.put(["k4"], [0])
    store.put(["new"], [0])
    store.put(["gone"], [0])
    store.remove(["gone"])
    assert store.commit() == 2
    assert store.metrics()["num_keys"] == 99
    provider.close()
    store = open_provider().load(2)
    store.remove(["new"])
    assert store.commit() == 3
    assert store.metrics()["num_keys"] == 98


def test_the_number_of_keys_after_abort_and_reload(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [([f"k{number}"], [0]) for number in range(10)]) == 1
    store = provider.load(1)
    store.put_all(([f"x{number}"], [0]) for number in range(5))
    store.abort()
    store = provider.load(1)
    store.put(["y"], [0])
    assert store.commit() == 2
    assert store.metrics()["num_keys"] == 11
    store = provider.load(1)
    store.remove(["k0"])
    assert store.commit() == 2
    assert store.metrics()["num_keys"] == 9


@needs(Capability.COLUMN_FAMILIES, Capability.MULTIPLE_VALUES)
def test_the_number_of_keys_over_families(open_provider: Opener) -> None:
    provider = open_provider(column_families=True)
    store = provider.load(0)
    store.create_family("other", Shape())
    store.create_family("lists", Shape(multiple_values=True))
    store.create_family("$internal", Shape(), internal=True)
    store.put_all(([f"k{number}"], [0]) for number in range(3))
    store.put_all((([f"k{number}"], [0]) for number in range(4)), "other")
    for number in range(6):
        store.merge([f"k{number % 2}"], [number], "lists")
    store.put_all((([f"k{number}"], [0]) for number in range(8)), "$internal")
    assert store.commit() == 1
    assert store.metrics()["num_keys"] == 3 + 4 + 2


@needs(Capability.RANGE_ENCODER, Capability.COUNTS_DELETED_RANGES)
def test_the_number_of_keys_after_a_deleted_range(open_provider: Opener) -> None:
    shape = Shape(key="t LONG, s STRING", encoder=Encoder.range(0))
    provider = open_provider(shape, column_families=True)
    assert commit_all(provider, 0, [((number, "x"), (0,)) for number in range(10)]) == 1
    store = provider.load(1)
    store.delete_range([2, ""], [7, ""])
    assert store.commit() == 2
    assert store.metrics()["num_keys"] == 5


def test_custom_metrics_are_announced(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    assert store.commit() == 1
    metrics = store.metrics()
    assert metrics["custom"], "a store reports something about itself"
    assert set(metrics["custom"]) <= set(provider.supported_custom_metrics())
    assert set(metrics["instance"]) <= set(provider.supported_instance_metrics())
    names = provider.supported_custom_metrics()
    assert len(set(names)) == len(names)


def test_memory_is_reported_and_grows_with_the_state(open_provider: Opener) -> None:
    provider = open_provider()
    store = provider.load(0)
    store.put(["a"], [1])
    assert store.commit() == 1
    small = store.metrics()["memory_bytes"]
    assert small > 0
    store = provider.load(1)
    store.put_all(([f"{number:04d}" * 100], [number]) for number in range(3000))
    assert store.commit() == 2
    assert store.metrics()["memory_bytes"] > small


def test_maintenance_on_an_empty_store(open_provider: Opener) -> None:
    provider = open_provider()
    provider.maintain()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    provider.maintain()
    assert state_at(provider, 1) == {("a",): (1,)}


def test_maintenance_during_a_batch(open_provider: Opener) -> None:
    provider = open_provider(confs=RETAIN_TWO)
    for version in range(6):
        store = provider.load(version)
        store.put([f"k{version}"], [version])
        provider.maintain()
        assert store.get([f"k{version}"]) == (version,)
        assert store.commit() == version + 1
    assert state_at(provider, 6) == {(f"k{version}",): (version,) for version in range(6)}


@pytest.mark.parametrize("last", [24, 25])
def test_old_versions_go_and_retained_ones_stay(open_provider: Opener, last: int) -> None:
    provider = open_provider(confs=RETAIN_TWO)
    expected: list[dict[tuple[str], tuple[int]]] = [{}]
    early: set[Path] = set()
    for version in range(last):
        store = provider.load(version)
        state = dict(expected[-1])
        for number in range(5):
            store.put([f"k{(version * 3 + number) % 17}"], [version])
            state[(f"k{(version * 3 + number) % 17}",)] = (version,)
        if version % 4 == 3:
            store.remove([f"k{version % 17}"])
            state.pop((f"k{version % 17}",), None)
        assert store.commit() == version + 1
        expected.append(state)
        if version == 4:
            early = files_below(open_provider.directory)
            assert early
        if version >= 5:
            provider.maintain()
    assert early - files_below(open_provider.directory), "no file of the first versions is gone"
    provider.close()

    fresh = open_provider(confs=RETAIN_TWO)
    assert state_at(fresh, last) == expected[last]
    # With a snapshot of the last version, too, the version before it is retained.
    fresh.maintain()
    fresh.close()
    fresh = open_provider(confs=RETAIN_TWO)
    for version in (last, last - 1, last):
        assert state_at(fresh, version) == expected[version]
    for version in (1, 2, 3):
        refuses(fresh.load, version)
    assert commit_all(fresh, last, [(["after"], [1])]) == last + 1
    assert state_at(fresh, last + 1) == {**expected[last], ("after",): (1,)}


def test_files_do_not_grow_with_versions(open_provider: Opener) -> None:
    provider = open_provider(confs=RETAIN_TWO)
    counts = []
    for version in range(40):
        assert commit_all(provider, version, [([f"k{version % 7}"], [version])]) == version + 1
        provider.maintain()
        counts.append(len(files_below(open_provider.directory)))
    assert max(counts[30:]) <= max(counts[10:20]) + 4


def test_a_new_provider_cleans_up_after_an_old_one(open_provider: Opener) -> None:
    provider = open_provider(confs=RETAIN_TWO)
    for version in range(12):
        assert commit_all(provider, version, [([f"k{version}"], [version])]) == version + 1
    provider.maintain()
    provider.close()
    before = files_below(open_provider.directory)
    fresh = open_provider(confs=RETAIN_TWO)
    for version in range(12, 18):
        assert commit_all(fresh, version, [([f"k{version}"], [version])]) == version + 1
        fresh.maintain()
    assert before - files_below(open_provider.directory)
    assert len(state_at(fresh, 18)) == 18
    fresh.close()
    last = open_provider(confs=RETAIN_TWO)
    assert len(state_at(last, 17)) == 17
    refuses(last.load, 1)


@needs(Capability.REPLACES_SNAPSHOTS)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_maintenance_keeps_what_a_replaced_version_needs(open_provider: Opener, every: int) -> None:
    provider = open_provider(confs=RETAIN_TWO)
    expected: list[dict[tuple[str], tuple[int]]] = [{}]
    for version in range(12):
        if version % every == 0:
            assert commit_all(provider, version, [(["first"], [version])]) == version + 1
            provider.maintain()
        assert commit_all(provider, version, [([f"k{version}"], [version])]) == version + 1
        provider.maintain()
        expected.append({**expected[-1], (f"k{version}",): (version,)})
        if version > 2:
            reader = open_provider(confs=RETAIN_TWO)
            assert state_at(reader, version + 1) == expected[version + 1]
            assert state_at(reader, version) == expected[version]
            reader.close()
