"""Queries whose state is not in memory between two batches.

Problem: a record that was spilled and fetched, or a list that is read where it lies, must be the
same for the query; and the estimates by which lists are read ahead may be as wrong as can be.
Answer: queries of the other files, with all state moved to files after every batch, compared with
RocksDB batch by batch; sessions with estimates that are right, wrong and missing.
Invariant: the same rows in the same batches; and the metrics say that state was spilled.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

import tailrace

from . import test_deduplication, test_group_state, test_holistic, test_joins, test_windows
from .data import WATERMARK, events, flush_event
from .harness import TAILRACE, Case, check, new_session, parametrize, run

CONF = "spark.sql.streaming.stateStore.tailrace."
COLD = {CONF + "spill": "always", CONF + "prefetch": "on"}
STORES = 2  # one for each partition


def cold(case: Case, **conf: str) -> Case:
    options = {CONF + name: value for name, value in conf.items()}
    return replace(case, conf={**case.conf, **COLD, **options})


def named(cases: list[Case], *names: str) -> list[Case]:
    found = [cold(case) for case in cases if case.name in names]
    assert len(found) == len(names)
    return found


CASES = [
    *named(test_windows.CASES, "tumbling_late", "sliding_update", "session_lists"),
    *named(test_holistic.CASES, "many_tumbling", "many_sliding", "session_many", "session_late"),
    *named(test_deduplication.CASES, "watermarked_late", "within_long_watermark"),
    *named(test_group_state.CASES, "no_timeout_update", "removes_itself"),
    cold(test_joins.RANGE_CASES[0]),
]


@parametrize(CASES)
def test_same_as_rocksdb(spark, case, tmp_path):
    check(spark, case, tmp_path)


MANY = {"events": events(offset=50, steps=6, rows=300, flush=True)}

# How the time at which a session is read can be estimated.
ESTIMATES = {
    "right": None,
    "too_early": "session_window.start - INTERVAL 1 HOUR",
    "too_late": "session_window.end + INTERVAL 1 DAY",
    "backwards": "timestamp_micros(4000000000000000 - unix_micros(session_window.end))",
    "none": "CAST(NULL AS TIMESTAMP)",
}


def sessions(trigger_time):
    def medians(s):
        rows = s["events"].withWatermark("time", WATERMARK)
        if trigger_time is not None:
            rows = tailrace.hint(rows, trigger_time=trigger_time)
        return rows.groupBy(F.session_window("time", "2 seconds"), "id").agg(
            F.median("amount").alias("median"), F.count("*").alias("rows")
        )

    return medians


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_estimates_change_no_result(spark, tmp_path, estimate):
    case = Case(f"estimates_{estimate}", "append", sessions(ESTIMATES[estimate]), MANY)
    check(spark, cold(case, readBatchRatio="0.1"), tmp_path)


def metrics_of(spark, case, directory):
    """The last value of each metric, summed over lives; those that count per batch, summed."""
    outcome = run(spark, replace(case, restart_after=()), TAILRACE, directory)
    reports = [operator for each in outcome.progress for operator in each["stateOperators"]]
    last = reports[-1]["customMetrics"]
    per_batch = {
        name: sum(report["customMetrics"][name] for report in reports)
        for name in ("tailraceEstimates", "tailraceEstimateError")
    }
    return {**last, **per_batch}


def test_good_estimates_read_many_lists_at_once(spark, tmp_path):
    case = Case("hits", "append", sessions(None), MANY)
    found = metrics_of(spark, cold(case, readBatchRatio="0.2"), tmp_path / "right")
    assert found["tailraceReadAheadHits"] > found["tailraceReadAheadMisses"] > 0
    assert found["tailraceEstimates"] > 0
    single = metrics_of(spark, cold(case, readBatchRatio="0"), tmp_path / "single")
    assert single["tailraceReadAheadHits"] == 0
    assert single["tailraceReadAheadMisses"] > found["tailraceReadAheadMisses"]
    # A day too late for all alike is still the right order.
    late = Case("late", "append", sessions(ESTIMATES["too_late"]), MANY)
    wrong = metrics_of(spark, cold(late, readBatchRatio="0.2"), tmp_path / "late")
    assert wrong["tailraceEstimateError"] > found["tailraceEstimateError"]


WINDOWS = {
    "window": lambda: F.window("time", "30 seconds"),
    "session": lambda: F.session_window("time", "2 seconds"),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("ratio", ["0", "0.2"])
def test_a_list_is_read_once(spark, tmp_path, window, ratio):
    """Before the last batch no more was asked of the log than had been freed when that began."""

    def medians(s):
        rows = s["events"].withWatermark("time", WATERMARK)
        return rows.groupBy(WINDOWS[window](), "key").agg(F.median("amount"))

    case = cold(Case("once", "append", medians, MANY), readBatchRatio=ratio)
    outcome = run(spark, replace(case, restart_after=()), TAILRACE, tmp_path)
    metrics = [report["stateOperators"][0]["customMetrics"] for report in outcome.progress]
    before, last = metrics[-2:]
    freed = last["tailraceColdWrittenBytes"] - last["tailraceColdBytes"]
    # Less is right: values that are written again with more of their list are freed unread.
    assert freed / 2 < before["tailraceColdUsedBytes"] <= freed


def closing(days: int) -> list[dict[str, Any]]:
    """A step whose one event ends every session before it, and is ended by that of the next day."""
    event = flush_event(-days)
    return [{**event, "time": event["time"] + timedelta(days=days)}]


def test_everything_is_given_back(spark, tmp_path):
    """After the last session the log has no more than after the closing steps alone."""
    last_steps = [closing(day) for day in range(1, 4)]
    all_steps = [*MANY["events"].steps, *last_steps]
    found = {}
    for name, steps in (("all", all_steps), ("last", last_steps)):
        streams = {"events": replace(MANY["events"], steps=steps)}
        local = tmp_path / name / "local"
        case = cold(Case(name, "append", sessions(None), streams), localDir=str(local))
        metrics = found[name] = metrics_of(spark, case, tmp_path / name / "run")
        files = [path for path in local.rglob("*.cold") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= metrics["tailraceColdLogBytes"]
        # A store has one file that it writes to; the others had nothing left that lives.
        assert len(files) <= 2 * STORES
    assert found["all"]["tailraceColdWrittenBytes"] > 10 * found["last"]["tailraceColdWrittenBytes"]
    assert found["all"]["tailraceColdBytes"] <= found["last"]["tailraceColdBytes"]


def test_a_hint_about_unknown_columns_is_refused(spark):
    session = new_session(spark, TAILRACE, {})
    rows = session.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    hinted = tailrace.hint(rows, trigger_time="no_such_column + INTERVAL 1 HOUR")
    digit = (F.col("value") % 10).alias("digit")
    medians = hinted.groupBy(F.session_window("timestamp", "10 seconds"), digit).agg(
        F.median("value")
    )
    with pytest.raises(Exception, match=r"no_such_column(?s:.*)these are: .*session_window"):
        tailrace.classify(medians)


def test_a_hint_about_a_function_of_the_users_is_shown(spark):
    session = new_session(spark, TAILRACE, {})
    rows = session.readStream.format("rate").load()
    rows = rows.selectExpr("CAST(value AS STRING) AS key", "CAST(1 AS INT) AS amount")
    totals = test_group_state.running_totals("update")
    (plain,) = tailrace.classify(totals({"events": rows}), "update")
    assert (plain.pattern, plain.reason != "the hint says so") == ("update", True)
    hinted = tailrace.hint(rows, pattern="unaligned append")
    (use,) = tailrace.classify(totals({"events": hinted}), "update")
    assert (use.pattern, use.reason) == ("unaligned append", "the hint says so")
    counts = hinted.groupBy("key").count()  # of an aggregation the plan knows better
    assert tailrace.classify(counts, "update")[0].pattern == "update"


LOOKED_UP = [
    *named(test_windows.CASES, "sliding_update"),
    *named(test_deduplication.CASES, "watermarked_late"),
    *named(test_group_state.CASES, "removes_itself"),
]


@parametrize(LOOKED_UP)
def test_records_are_read_before_they_are_looked_up(spark, case, tmp_path):
    """Most of them: this mode also spills, and cleans the log, while rows wait."""

    def ahead(found):
        return found["tailracePrefetchHits"] + found["tailracePrefetchLate"]

    found = metrics_of(spark, case, tmp_path / "on")
    assert ahead(found) > found["tailracePrefetchMisses"]
    off = metrics_of(spark, cold(case, prefetch="off"), tmp_path / "off")
    assert ahead(off) == 0
    assert off["tailracePrefetchMisses"] > found["tailracePrefetchMisses"]


def test_past_the_page_cache(spark, tmp_path):
    (case,) = named(test_windows.CASES, "sliding_update")
    check(spark, cold(case, coldIo="direct"), tmp_path)


# A round trip of 0.2 ms for each question, on the bench's remote file system.
FAR_AWAY = {
    "fs.remote.impl": "tailrace.bench.RemoteFileSystem",
    "fs.remote.rtt.nanos": "200000",
}
REMOTE = [
    *named(test_windows.CASES, "sliding_update", "session_lists"),
    *named(test_deduplication.CASES, "watermarked_late"),
]


@parametrize(REMOTE)
def test_on_a_remote_file_system(spark, case, tmp_path):
    uri = f"remote://{tmp_path / 'spilled'}"
    far = cold(case, coldDir=uri)
    check(spark, replace(far, conf={**far.conf, **FAR_AWAY}), tmp_path)
    assert list((tmp_path / "spilled").rglob("alive")), "all state was spilled to this place"


def test_records_far_away_are_read_before_they_are_looked_up(spark, tmp_path):
    (case,) = named(test_windows.CASES, "sliding_update")
    far = cold(case, coldDir=f"remote://{tmp_path / 'spilled'}")
    found = metrics_of(spark, replace(far, conf={**far.conf, **FAR_AWAY}), tmp_path / "run")
    hits = found["tailracePrefetchHits"] + found["tailracePrefetchLate"]
    assert hits > found["tailracePrefetchMisses"]
    assert found["tailraceColdWrittenBytes"] > 0
