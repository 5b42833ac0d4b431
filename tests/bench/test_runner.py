"""The runner on a tiny workload: stores take turns, the result is complete, Ctrl-C keeps it."""

from __future__ import annotations

import functools
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tailrace
from tailrace.bench import result, runner
from tailrace.bench.growth import jobs as growth_jobs
from tailrace.bench.plan import Plan, job
from tailrace.bench.screen import Screen
from tailrace.bench.spill import jobs as spill_jobs
from tailrace.bench.stores import chosen
from tailrace.bench.workloads import SUITES, WORKLOADS
from tailrace.cli._local import LocalSession


def measured(
    spark: SparkSession, folder: Path, plan: Plan, stop: threading.Event | None = None
) -> dict[str, Any]:
    screen = Screen(plan.steps, io.StringIO())
    session = LocalSession(spark, folder)
    return runner.measure(session, plan, screen, stop or threading.Event(), tailrace_confs())


@functools.cache
def tailrace_confs() -> dict[str, str]:
    return tailrace.confs()


def tiny(**values: Any) -> Plan:
    jobs = (job(WORKLOADS["update"], {}, rows=50, keys=20),)
    sizes: dict[str, Any] = {"batches": 4, "warmup": 1, "rounds": 2, "partitions": 1}
    stores = chosen(["rocksdb-changelog", "tailrace", "none"])
    return Plan(**({"jobs": jobs, "stores": stores} | sizes | values))


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measured(spark, tmp_path_factory.mktemp("bench"), tiny())


def test_the_stores_take_turns(found: dict[str, Any]) -> None:
    (run,) = found["runs"]
    turns = sorted(
        (row["order"], name, row["round"])
        for name, store in run["stores"].items()
        for row in store["batches"]
    )
    assert [(name, number) for _, name, number in turns] == [
        *[("rocksdb-changelog", 0)] * 2, *[("tailrace", 0)] * 2, *[("none", 0)] * 2,
        *[("tailrace", 1)] * 2, *[("none", 1)] * 2, *[("rocksdb-changelog", 1)] * 2,
    ]  # fmt: skip
    assert turns[0][0] == 3, "a warm-up batch of each store came first and was cut"


def test_every_batch_says_what_it_cost(found: dict[str, Any]) -> None:
    for name, store in found["runs"][0]["stores"].items():
        for row in store["batches"]:
            assert row["rows"] == 50
            assert row["seconds"] > 0
            assert row["phases_ms"]["add_batch"] > 0
            # The wait at the gate is in neither; milliseconds are rounded by Spark.
            assert row["phases_ms"]["trigger"] <= 1000 * row["seconds"] + 2
            assert row["cpu_seconds"]["jvm"] > 0
            assert row["memory"]["heap_peak_bytes"] > 0
            assert row["checkpoint"]["files"] > 0
            # RocksDB does not count its rows: that would cost it a read before each write.
            counted = {"none": 0, "rocksdb-changelog": None, "tailrace": 20}
            assert row["state"]["rows"] == counted[name]


def test_the_result_is_complete_and_tells_no_secrets(found: dict[str, Any], tmp_path: Path) -> None:
    assert found["interrupted"] is False
    share = found["environment"]["other_work_share"]
    assert share is None or 0 <= share <= 1
    (run,) = found["runs"]
    assert {"p50", "p95", "p99", "p99.9"} <= run["stores"]["tailrace"]["summary"][
        "batch_seconds"
    ].keys()
    assert run["stores"]["none"]["floor"] is True
    assert run["results"] == {
        "checked": True,
        "agree": True,
        "stores": ["rocksdb-changelog", "tailrace"],
        "batches": 5,
        "differences": [],
    }
    path = tmp_path / "result.json"
    result.write(found, path)
    assert result.read(path) == json.loads(json.dumps(found))
    text = path.read_text("utf-8")
    assert str(Path.home()) not in text
    assert str(tmp_path) not in text


def test_ratios_against_rocksdb_and_the_floor(found: dict[str, Any]) -> None:
    compared = found["runs"][0]["ratios"]
    assert compared["better_rocksdb"]["reference"] == "rocksdb-changelog"
    assert compared["floor"]["reference"] == "none"
    ratio = compared["better_rocksdb"]["stores"]["tailrace"]
    assert ratio["min"] <= ratio["max"]
    assert len(ratio["rounds"]["values"]) == 2


def test_a_join_runs_on_rocksdb_in_format_4_too(spark: SparkSession, tmp_path: Path) -> None:
    names = ["rocksdb-counting", "rocksdb-changelog", "rocksdb-format4",
             "rocksdb-changelog-format4", "tailrace"]  # fmt: skip
    jobs = tuple(job(WORKLOADS[name], {}, rows=200) for name in ("join", "update"))
    plan = tiny(jobs=jobs, stores=chosen(names), batches=1, rounds=1, warmup=1)
    join, update = measured(spark, tmp_path, plan)["runs"]
    assert join["results"]["agree"] is True
    assert join["results"]["stores"] == names
    assert list(update["stores"]) == ["rocksdb-counting", "rocksdb-changelog", "tailrace"]
    families = {
        name: row["custom_metrics"]["rocksdbNumExternalColumnFamilies"] > 0
        for name, store in join["stores"].items()
        for row in store["batches"]
        if name != "tailrace"
    }
    assert [name for name, has in families.items() if has] == names[2:4]
    assert update["stores"]["rocksdb-counting"]["summary"]["state_rows"] > 0
    assert update["stores"]["rocksdb-changelog"]["summary"]["state_rows"] is None


def test_an_interrupted_run_keeps_what_was_measured(spark: SparkSession, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    found = measured(
        spark, tmp_path, tiny(warmup=0, stores=chosen(["rocksdb-changelog", "tailrace"])), stop
    )
    assert found["interrupted"] is True
    (run,) = found["runs"]
    assert list(run["stores"]) == ["rocksdb-changelog"]
    assert len(run["stores"]["rocksdb-changelog"]["batches"]) == 1


def test_an_open_loop_measures_from_arrival(spark: SparkSession, tmp_path: Path) -> None:
    open_job = job(WORKLOADS["update"], {}, rate=200, trigger=0.1, keys=20)
    plan = tiny(jobs=(open_job,), stores=chosen(["tailrace"], ["zstream"]), warmup=0)
    (run,) = measured(spark, tmp_path, plan)["runs"]
    assert run["loop"] == "open"
    for store in run["stores"].values():
        for row in store["batches"]:
            # The oldest event of a batch has waited for the batch, at least.
            assert max(row["latency_seconds"]) >= row["seconds"]
    assert run["results"]["checked"] is False, "batches of an open loop are not the same"


def test_the_spill_suite_has_memory_for_a_part_of_its_state() -> None:
    full, tenth = spill_jobs((), {}), spill_jobs((), {}, 20_000)
    assert [one.workload.name for one in full] == list(SUITES["spill"])
    assert full[0].options == {"memory_limit": "128m", "cold_io": "buffered"}
    assert tenth[0].options == {"memory_limit": "12m", "cold_io": "buffered"}
    (shared,) = spill_jobs(["update"], {}, contestants=2, cold_io="direct")
    assert shared.options == {"memory_limit": "256m", "cold_io": "direct"}
    (far,) = spill_jobs(["update"], {}, cold_dir="remote:///spilled")
    assert far.options["cold_dir"] == "remote:///spilled"
    assert (full[0].events.keys, tenth[0].events.keys) == (4_000_000, 400_000)  # type: ignore[attr-defined]


def test_growth_preloads_every_key(spark: SparkSession, tmp_path: Path) -> None:
    plan = tiny(jobs=growth_jobs({}, [300], 10), batches=1, rounds=1, warmup=0,
                stores=chosen(["tailrace"]))  # fmt: skip
    (run,) = measured(spark, tmp_path, plan)["runs"]
    assert run["parameters"] == {"state_rows": 300}
    assert run["stores"]["tailrace"]["summary"]["state_rows"] == 300
