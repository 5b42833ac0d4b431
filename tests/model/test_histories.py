"""Random histories of batches, compared with the model after every single operation.

Problem: the faults of a store hide in sequences that no test writes down: an undo after a growth
after a replaced version after a restart.
Answer: hypothesis draws steps, tests/support/histories.py reads them against the model, the store
replays them in one call. The same machine runs on RocksDB to show that the model is right.
Invariant: a failure is replayable: TAILRACE_SEED gives the same histories in the same order.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.harness import Harness
from support.histories import VERSIONS, Setting, Step, history_of
from support.seeds import SEED
from support.stores import (
    ROCKSDB,
    TAILRACE,
    TAILRACE_COLD,
    TAILRACE_LAZY,
    TAILRACE_LAZY_COLD,
    TAILRACE_SNAPSHOTS,
)

RETAIN_FEW = {
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
    "spark.sql.streaming.stateStore.tailrace.maxDeltas": "2",
}

SMALL = Setting(TAILRACE.class_name, dict(TAILRACE.confs))
WIDE = Setting(TAILRACE.class_name, dict(TAILRACE.confs), keys=20_000, burst=700)
FORGETFUL = Setting(
    TAILRACE.class_name, {**TAILRACE.confs, **RETAIN_FEW}, retained=4, shares=VERSIONS
)
SNAPSHOTS = Setting(TAILRACE_SNAPSHOTS.class_name, dict(TAILRACE_SNAPSHOTS.confs), shares=VERSIONS)
COLD = Setting(TAILRACE_COLD.class_name, dict(TAILRACE_COLD.confs))
COLD_WIDE = Setting(TAILRACE_COLD.class_name, dict(TAILRACE_COLD.confs), keys=20_000, burst=700)
LAZY = Setting(TAILRACE_LAZY.class_name, dict(TAILRACE_LAZY.confs))
LAZY_VERSIONS = Setting(TAILRACE_LAZY.class_name, dict(TAILRACE_LAZY.confs), shares=VERSIONS)
LAZY_WIDE = Setting(
    TAILRACE_LAZY.class_name, dict(TAILRACE_LAZY.confs), keys=20_000, burst=700, shares=VERSIONS
)
LAZY_COLD = Setting(TAILRACE_LAZY_COLD.class_name, dict(TAILRACE_LAZY_COLD.confs), shares=VERSIONS)
# RocksDB keeps files of a history that a batch started further back has replaced.
ORACLE = Setting(ROCKSDB.class_name, dict(ROCKSDB.confs), depth=1, counts_keys=False)

NUMBERS = itertools.count()


def steps(least: int, most: int) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(
        st.integers(0, 99),
        st.integers(0, 65_535),
        st.integers(0, 255),
        st.integers(0, 255),
    )
    return st.lists(step, min_size=least, max_size=most)


def histories(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    chosen = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(SEED)(chosen(test))


def replay(harness: Harness, told: list[Step], setting: Setting) -> None:
    with tempfile.TemporaryDirectory() as directory:
        number = next(NUMBERS)
        history_of(told, setting, str(Path(directory) / "state"), f"history-{number}").replay(
            harness
        )


@histories(40)
@given(steps(100, 160))
def test_few_keys(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, SMALL)


@histories(10)
@given(steps(60, 100))
def test_many_keys(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, WIDE)


@histories(30)
@given(steps(80, 140))
def test_few_retained_versions(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, FORGETFUL)


@histories(15)
@given(steps(60, 100))
def test_frequent_snapshots(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, SNAPSHOTS)


@histories(30)
@given(steps(80, 140))
def test_state_that_is_not_in_memory(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, COLD)


@histories(6)
@given(steps(60, 100))
def test_much_state_that_is_not_in_memory(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, COLD_WIDE)


@histories(15)
@given(steps(80, 140))
def test_restarts_that_load_nothing(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, LAZY)


@histories(25)
@given(steps(60, 100))
def test_many_restarts_that_load_nothing(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, LAZY_VERSIONS)


@histories(8)
@given(steps(60, 100))
def test_restarts_that_load_nothing_of_many_keys(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, LAZY_WIDE)


@histories(15)
@given(steps(60, 100))
def test_restarts_that_load_nothing_into_little_memory(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, LAZY_COLD)


@histories(5)
@given(steps(50, 80))
def test_the_model_agrees_with_rocksdb(harness: Harness, told: list[Step]) -> None:
    replay(harness, told, ORACLE)
