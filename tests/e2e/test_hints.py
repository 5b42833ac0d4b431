"""Queries whose stores get the keys of rows to come from operators that see them earlier.

Problem: a node that sends hints stands in the middle of a plan. It must change no row, and the keys
that it computes far from the state must be, byte for byte, those that the operator looks up: a
wrong one would only cost time, and show in no result.
Answer: queries of the other files with all state in files and hints from every place that a plan
offers, compared with RocksDB batch by batch; and counters of what became of the hints.
Invariant: the same rows in the same batches; hints come before the task, and their records are
looked up.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from support.counting import eventually

import tailrace

from . import (
    test_aggregations,
    test_composed_queries,
    test_deduplication,
    test_group_state,
    test_joins,
    test_windows,
)
from .data import advertisements, events
from .harness import TAILRACE, Case, check, new_session, parametrize, run

CONF = "spark.sql.streaming.stateStore.tailrace."
HINTED = {CONF + "spill": "always", CONF + "prefetch": "on", CONF + "hints": "on"}


def hinted(case: Case) -> Case:
    return replace(case, conf={**case.conf, **HINTED})


def named(cases: list[Case], *names: str) -> list[Case]:
    found = {case.name: hinted(case) for case in cases}
    return [found[name] for name in names]


CASES = [
    *named(test_aggregations.CASES, "struct_key"),
    *named(test_windows.CASES, "sliding_update"),
    *named(test_deduplication.CASES, "watermarked_window_struct_null_keys"),
    *named(test_group_state.CASES, "removes_itself"),
    *named(test_joins.RANGE_CASES, "left_range_format_2", "full_range_format_3"),
    *named(test_joins.OTHER_CASES, "full_null_keys", "self_join"),
    *named(test_composed_queries.CASES, "left_join_then_window"),
]


@parametrize(CASES)
def test_same_as_rocksdb(spark, case, tmp_path):
    check(spark, case, tmp_path)


# ---- what becomes of hints

STEPS = {"events": events(offset=70, steps=8, rows=300)}


def totals(s):
    rows = s["events"].withColumn("half", F.col("id") % 100)
    return rows.groupBy("half").agg(F.count("*").alias("n"), F.sum("amount").alias("sum"))


def distinct(s):
    return s["events"].withColumn("half", F.col("id") % 900).dropDuplicates(["half", "key"])


def kept(s):
    def keep(key, frames, state):
        seen = state.get[0] if state.exists else 0
        for frame in frames:
            seen += len(frame)
        state.update((seen,))
        yield frame.head(1)[["id"]].assign(seen=seen)

    rows = s["events"].select((F.col("id") % 100).alias("half"), "id")
    return rows.groupBy("half").applyInPandasWithState(
        keep, "id LONG, seen LONG", "seen LONG", "update", "NoTimeout"
    )


def joined(s):
    shown = s["shown"].withColumn("ad", F.col("shown_id") % 40)
    clicks = s["clicks"].withColumn("clicked_ad", F.col("click_id") % 40)
    return shown.join(clicks, F.expr("ad = clicked_ad"))


OPERATORS = {
    "aggregation": (totals, "update", STEPS),
    "deduplication": (distinct, "append", STEPS),
    "groups": (kept, "update", STEPS),
    "join": (joined, "append", advertisements(offset=70)),
}


def last_metrics(spark, case, directory):
    """Those that count since a store was opened, at the end of a run in one life."""
    outcome = run(spark, replace(case, restart_after=()), TAILRACE, directory)
    return outcome.progress[-1]["stateOperators"][0]["customMetrics"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_hints_come_in_time_and_are_used(spark, tmp_path, operator):
    build, mode, streams = OPERATORS[operator]
    found = last_metrics(spark, hinted(Case(operator, mode, build, streams)), tmp_path)
    print({name: value for name, value in found.items() if "Hint" in name or "Prefetch" in name})
    assert found["tailraceHintsReceived"] > 100
    assert found["tailraceHintsInTime"] > found["tailraceHintsReceived"] * 0.9
    assert found["tailraceHintBytes"] > 4 * 100
    # Records that were read for hints are looked up: their keys were the operator's.
    assert found["tailracePrefetchHits"] > 10 * found["tailracePrefetchInVain"]


def test_without_hints_nothing_is_sent(spark, tmp_path):
    case = hinted(Case("none", "update", totals, STEPS))
    case = replace(case, conf={**case.conf, CONF + "hints": "off"})
    found = last_metrics(spark, case, tmp_path)
    assert found["tailraceHintsReceived"] == found["tailraceHintBytes"] == 0
    assert found["tailracePrefetchHits"] > 0


def test_the_rows_of_a_join_are_read_before_they_are_looked_up(spark, tmp_path):
    """Each key has many rows: most reads are of rows, which only the second step can expect."""
    case = hinted(Case("rows", "append", joined, advertisements(offset=70)))
    ahead = last_metrics(spark, case, tmp_path / "ahead")
    case = replace(case, conf={**case.conf, CONF + "prefetch": "off", CONF + "hints": "off"})
    single = last_metrics(spark, case, tmp_path / "single")
    assert single["tailracePrefetchHits"] == 0
    assert ahead["tailracePrefetchHits"] > 2 * ahead["tailracePrefetchMisses"]
    assert ahead["tailracePrefetchMisses"] < single["tailracePrefetchMisses"] / 2


# ---- where hints come from

by_function = F.udf(lambda number: number % 100, LongType())

PLACES = {
    "at the source": lambda rows: rows.groupBy(F.col("value") % 100),
    "below a filter": lambda rows: rows.where("value % 7 > 0").groupBy(F.col("value") % 100),
    # What a function of the user's computes is known above it only.
    "below the aggregation": lambda rows: rows.groupBy(by_function("value")),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_explained_where_hints_come_from(spark, tmp_path, place):
    session = new_session(spark, TAILRACE, HINTED)
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    query = (
        PLACES[place](rows).count().writeStream.format("noop").outputMode("update")
        .option("checkpointLocation", (tmp_path / "checkpoint").as_uri()).start()
    )  # fmt: skip

    def chosen():
        return {use.lookahead for use in tailrace.classify(query)} - {"in the task"}

    try:
        eventually(chosen, "a choice")
        (use,) = tailrace.classify(query)
        assert use.lookahead_reason
        # A filter right above the source has the same rows below it as the source.
        assert chosen() == {"at the source" if place == "below a filter" else place}
    finally:
        query.stop()


def test_no_hints_are_sent_of_late_rows(spark, tmp_path):
    """Their operator drops them, so that nothing need be read for them."""
    stream = events(offset=71, steps=6, rows=200, jumps={3: 86_400})
    late = [{**row, "id": row["id"] + 10_000} for row in stream.steps[0]]
    stream = replace(stream, steps=[*stream.steps, late])

    def per_window(s):
        rows = s["events"].withWatermark("time", "1 minute")
        return rows.groupBy(F.window("time", "30 seconds"), F.col("id") % 150).count()

    case = hinted(Case("late", "update", per_window, {"events": stream}))
    outcome = run(spark, replace(case, restart_after=()), TAILRACE, tmp_path)
    reports = [report for report in outcome.progress if report["numInputRows"] > 0]
    received = [
        report["stateOperators"][0]["customMetrics"]["tailraceHintsReceived"] for report in reports
    ]
    assert received[-2] > received[-3] > 0  # rows in time
    assert received[-1] == received[-2]
    assert reports[-1]["stateOperators"][0]["numRowsDroppedByWatermark"] > 0
