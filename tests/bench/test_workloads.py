"""Every workload shows the rows of its reference, on RocksDB and on tailrace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace.bench.events import EventOptions, NexmarkOptions, changed
from tailrace.bench.workloads import SUITES, WORKLOADS, QueryOptions, Workload
from tailrace.bench.workloads.check import check, expected
from tailrace.errors import OptionError
from tailrace.session import PROVIDER_CLASS, PROVIDER_CONF

ROCKSDB_CLASS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# A store, and the prefix of its metrics, which shows that it was the one.
STORES = {"rocksdb": ROCKSDB_CLASS, "tailrace": PROVIDER_CLASS}

EVENTS, BATCHES = 1500, 3
# Small key spaces, so that keys come again: 30 s of event time, out of order by up to 1 s.
SMALL: dict[str, Any] = {"rate": 50, "disorder": 50}
SMALLER: dict[str, dict[str, Any]] = {
    "q13-state": {"rate": 500},
    "lr2": {"vehicles": 60, "rate": 20, "disorder": 20},
    "lr4": {"vehicles": 60, "highways": 2},
    "cm2": {"jobs": 10},
    "ysb": {"campaigns": 5},
    "ysb-redis": {"campaigns": 5, "round_trip_ms": 1},
    "readwrite": {"keys": 300},
    "update": {"keys": 300},
    "window-append": {"keys": 50},
    "window-median": {"keys": 20},
    "sessions": {"keys": 50},
    "dedup": {"keys": 3},
    "join": {"keys": 50},
    "spill-update": {"keys": 300},
    "spill-windows": {"keys": 50},
    "spill-dedup": {"keys": 3},
    "spill-sessions": {"keys": 50},
}
# Each report of LR2 is in 30 windows.
FEWER = {"lr2": 300}
# Short sessions, so that a bidder has several.
QUERIES = {name: QueryOptions(gap=2) for name in ("q7-session", "q11", "q11-median", "sessions")}
QUERIES["window-median"] = QueryOptions(window=8, slide=8)


def small(workload: Workload) -> tuple[int, EventOptions, QueryOptions]:
    values = SMALL | SMALLER.get(workload.name, {})
    return (
        FEWER.get(workload.name, EVENTS),
        changed(workload.events, **values),
        QUERIES.get(workload.name, workload.query),
    )


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_result_equals_the_reference_on_both_stores(spark: SparkSession, name: str) -> None:
    workload = WORKLOADS[name]
    events, options, query = small(workload)
    reference = expected(spark, workload, events, options, query)
    assert reference, "a reference without rows shows nothing"
    for store, provider in STORES.items():
        conf = {PROVIDER_CONF: provider}
        checked = check(spark, workload, conf, events, options, query, BATCHES, reference)
        assert checked.equal, f"{store}: {checked}"
        used = {other for other in STORES for it in checked.metrics if it.startswith(other)}
        assert used == ({store} if workload.stateful else set())


def test_a_wrong_result_is_noticed(spark: SparkSession) -> None:
    workload = WORKLOADS["update"]
    events, options, query = small(workload)
    reference = expected(spark, workload, events, options, query)
    row = min(reference)
    wrong = reference - Counter([row]) + Counter([(*row[:-1], row[-1] + 1)])
    checked = check(spark, workload, {}, events, options, query, BATCHES, wrong)
    assert not checked.equal
    assert checked.unexpected == Counter([row])
    assert "1 are missing" in str(checked)


def test_suites_name_workloads() -> None:
    for names in SUITES.values():
        assert set(names) <= set(WORKLOADS)
    assert set(SUITES["nexmark"]) >= set(SUITES["flowkv"])
    assert all(workload.name == name for name, workload in WORKLOADS.items())


def test_update_workloads_have_a_key_and_append_ones_a_time() -> None:
    for workload in WORKLOADS.values():
        assert bool(workload.key) == (workload.output_mode == "update")
        assert bool(workload.time) == (workload.output_mode == "append")


def test_a_batch_of_window_append_is_a_second() -> None:
    assert WORKLOADS["window-append"].configured(5000).rate == 5000
    assert WORKLOADS["window-append"].configured(5000, rate=7).rate == 7
    assert WORKLOADS["q5"].configured(5000).rate == NexmarkOptions().rate


def test_a_run_that_has_no_one_right_result_is_refused(spark: SparkSession) -> None:
    workload = WORKLOADS["q5"]
    with pytest.raises(OptionError, match="late"):
        check(spark, workload, {}, 1500, NexmarkOptions(rate=10, disorder=100), batches=3)
    with pytest.raises(OptionError, match="equal batches"):
        check(spark, workload, {}, 1000, batches=3)


def test_impossible_sizes_of_a_query_are_refused() -> None:
    for values in ({"window": 0}, {"slide": 11}, {"delay": -1}, {"gap": 1.5}):
        with pytest.raises(OptionError):
            replace(QueryOptions(), **values)  # type: ignore[arg-type]
