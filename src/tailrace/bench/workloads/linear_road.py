"""Linear Road's queries as MiSA has them: LR2 and LR4.

Problem: LR2 joins the reports of a window with those that are new since its last slide, and
Spark knows joins of rows, not of windows.
Answer: both sides carry the end of their window (30 s long, or as long as a slide), and are joined
on it. `window_time` keeps it an event time, so that the watermark clears the join's state; Spark
wants one event time on each side, so the report's own is a copy from before the watermark.
Invariant: a report meets every report of its vehicle that is in the window at that slide, once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import LinearRoadOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts

_REPORT = ("reported", "vehicle", "speed", "highway", "lane", "direction", "segment")


def _lr2(source: Source, query: QueryOptions) -> DataFrame:
    positions = (
        source.table("position")
        .withColumn("reported", F.col("time"))
        .withWatermark("time", seconds(query.delay))
    )
    recent = positions.select(
        F.window("time", seconds(query.window), seconds(query.slide)).alias("window"),
        F.col("vehicle"),
    ).select(F.window_time("window").alias("slide"), "vehicle")
    latest = positions.select(
        F.window("time", seconds(query.slide)).alias("window"), *_REPORT
    ).select(F.window_time("window").alias("slide"), *_REPORT)
    return latest.join(recent, ["slide", "vehicle"]).select(*_REPORT)


def _lr4(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("position")
        .withWatermark("time", seconds(query.delay))
        .groupBy(
            F.window("time", seconds(query.window), seconds(query.slide)),
            "highway",
            "direction",
            "segment",
        )
        .agg(F.count("vehicle").alias("vehicles"))
        .select("window.start", "window.end", "highway", "direction", "segment", "vehicles")
    )


def _expected_lr2(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    reports = recorded.rows("position", "time", *_REPORT[1:])
    times: dict[int, list[int]] = defaultdict(list)
    for report in reports:
        times[report[1]].append(report[0])
    for report in reports:
        slide = query.slide * SECOND
        end = report[0] - report[0] % slide + slide
        for time in times[report[1]]:
            if end - query.window * SECOND <= time < end:
                yield report


def _expected_lr4(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    counts: Counter[Row] = Counter()
    for time, *place in recorded.rows("position", "time", "highway", "direction", "segment"):
        for start in window_starts(time, query.window, query.slide):
            key = (start, start + query.window * SECOND, *place)
            counts[key] += 1
    return ((*key, count) for key, count in counts.items())


LR2 = Workload(
    name="lr2",
    title="Linear Road 2: reports joined with those of the same vehicle in the last 30 s",
    patterns=(Pattern.JOIN,),
    events=LinearRoadOptions(),
    build=_lr2,
    output_mode="append",
    reference=_expected_lr2,
    query=QueryOptions(window=30, slide=1),
    time="reported",
    rows_per_batch=4_500,
)
LR4 = Workload(
    name="lr4",
    title="Linear Road 4: vehicles in each segment, per sliding window",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=LinearRoadOptions(),
    build=_lr4,
    output_mode="update",
    reference=_expected_lr4,
    query=QueryOptions(window=20, slide=5),
    key=("start", "highway", "direction", "segment"),
    rows_per_batch=4_500,
)
WORKLOADS = (LR2, LR4)
