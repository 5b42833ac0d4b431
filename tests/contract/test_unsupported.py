"""A store refuses calls that it does not support; it never does half of one.

Each test runs on the stores that lack the capability by the table in tests/support/stores.py.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from support.expectations import Capability, commit_all, contents, lacks, needs, refuses, state_at
from support.fixtures import Opener
from support.harness import TIMESTAMP_POSTFIX, TIMESTAMP_PREFIX, Encoder, Shape
from support.stores import ALL_STORES


def marked(mark: str) -> set[Capability]:
    """The capabilities that tests of this folder name in a mark."""
    modules = [runpy.run_path(str(path)) for path in Path(__file__).parent.glob("test_*.py")]
    tests = [value for module in modules for value in module.values() if callable(value)]
    marks = [each for test in tests for each in getattr(test, "pytestmark", [])]
    marks += [module["pytestmark"].mark for module in modules if "pytestmark" in module]
    return {capability for each in marks if each.name == mark for capability in each.args}


def test_the_table_is_tested_both_ways() -> None:
    """A capability that no test needs, or a lack that no test shows, would be a mere claim."""
    assert marked("needs") == set(Capability)
    assert marked("lacks") == {item for store in ALL_STORES for item in store.lacks}


@lacks(Capability.RANGE_ENCODER)
def test_no_range_encoder(open_provider: Opener) -> None:
    refuses(open_provider, Shape(key="t LONG, s STRING", encoder=Encoder.range(0)))
    store = open_provider(Shape(key="t LONG, s STRING")).load(0)
    refuses(store.range_scan, [0, ""], [1, ""])
    refuses(store.range_scan_multiple, [0, ""], [1, ""])
    refuses(store.delete_range, [0, ""], [1, ""])


@lacks(Capability.TIMESTAMP_ENCODERS)
@pytest.mark.parametrize("encoder", [TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX])
def test_no_timestamp_encoders(open_provider: Opener, encoder: Encoder) -> None:
    refuses(open_provider, Shape(key="s STRING, t LONG NOT NULL", encoder=encoder))


@lacks(Capability.COLUMN_FAMILIES)
def test_no_column_families(open_provider: Opener) -> None:
    refuses(open_provider, column_families=True)
    store = open_provider().load(0)
    refuses(store.create_family, "other", Shape())
    refuses(store.remove_family, "other")
    refuses(store.put, ["a"], [1], "other")
    refuses(store.get, ["a"], "other")
    refuses(store.remove, ["a"], "other")
    refuses(store.iterate, "other")
    assert store.family_names() == {"default"}
    assert contents(store) == {}


@lacks(Capability.MULTIPLE_VALUES)
def test_no_multiple_values(open_provider: Opener) -> None:
    refuses(open_provider, Shape(multiple_values=True))
    store = open_provider().load(0)
    refuses(store.merge, ["a"], [1])
    refuses(store.merge_list, ["a"], [[1]])
    refuses(store.put_list, ["a"], [[1]])
    refuses(store.values, ["a"])
    refuses(store.iterate_multiple)
    refuses(store.prefix_scan_multiple, ["a"])
    assert contents(store) == {}


@lacks(Capability.CHECKPOINT_IDS)
def test_no_checkpoint_ids(open_provider: Opener) -> None:
    refuses(
        open_provider,
        confs={"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"},
    )
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    refuses(provider.load, 1, "00000000-0000-0000-0000-000000000000")


@lacks(Capability.LOAD_EMPTY)
def test_no_empty_start(open_provider: Opener) -> None:
    provider = open_provider()
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    refuses(provider.load, 1, load_empty=True)


@lacks(Capability.REFUSES_READS_AFTER_END)
def test_reads_after_the_end_still_see_the_batch(open_provider: Opener) -> None:
    store = open_provider().load(0)
    store.put(["a"], [1])
    assert store.commit() == 1
    assert store.get(["a"]) == (1,)


@lacks(Capability.COUNTS_DELETED_RANGES)
@needs(Capability.RANGE_ENCODER)
def test_deleted_ranges_are_not_counted(open_provider: Opener) -> None:
    shape = Shape(key="t LONG, s STRING", encoder=Encoder.range(0))
    provider = open_provider(shape, column_families=True)
    assert commit_all(provider, 0, [((number, "x"), (0,)) for number in range(10)]) == 1
    store = provider.load(1)
    store.delete_range([2, ""], [7, ""])
    assert store.commit() == 2
    assert store.metrics()["num_keys"] == 10


@lacks(Capability.REPLACES_SNAPSHOTS)
def test_a_snapshot_outlives_the_version_it_is_of(open_provider: Opener) -> None:
    """A defect of Spark's HDFS store, kept here so that the table stays true."""
    confs = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "1"}
    provider = open_provider(confs=confs)
    assert commit_all(provider, 0, [(["a"], [1])]) == 1
    assert commit_all(provider, 1, [(["first"], [2])]) == 2
    provider.maintain()
    assert commit_all(provider, 1, [(["second"], [3])]) == 2
    provider.close()
    assert state_at(open_provider(confs=confs), 2) == {("a",): (1,), ("first",): (2,)}
