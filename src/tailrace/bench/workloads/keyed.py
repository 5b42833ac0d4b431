"""State and little else: ReadWrite, update, window-append and window-median.

Problem: a store's own cost shows best where a query does nothing but use its state.
Answer: one aggregation each: with a payload, without, over windows that close all the time, and
over one that stays open long for an aggregate that needs all its rows.
Invariant: each event touches exactly one row of state (two in window-append, which slides by half
of its window).
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import KeyedOptions, ReadWriteOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts


def _readwrite(source: Source, query: QueryOptions) -> DataFrame:  # noqa: ARG001 - has no sizes
    return (
        source.table("event")
        .groupBy("id")
        .agg(F.count("*").alias("count"), F.max_by("padding", "time").alias("padding"))
    )


def _update(source: Source, query: QueryOptions) -> DataFrame:  # noqa: ARG001 - has no sizes
    return (
        source.table("event")
        .groupBy("key")
        .agg(F.count("*").alias("count"), F.max("value").alias("highest"))
    )


def _window_append(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("event")
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.window("time", seconds(query.window), seconds(query.slide)), "key")
        .agg(F.count("*").alias("count"))
        .select("window.start", "window.end", "key", "count")
    )


def _window_median(source: Source, query: QueryOptions) -> DataFrame:
    """Of doubles that hardly ever come twice."""
    return (
        source.table("event")
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.window("time", seconds(query.window)), "key")
        .agg(F.median(F.col("value") / F.lit(3.0)).alias("median"))
        .select("window.start", "window.end", "key", "median")
    )


def _expected_readwrite(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    counts: Counter[int] = Counter()
    last: dict[int, str] = {}
    for _, number, padding in sorted(recorded.rows("event", "time", "id", "padding")):
        counts[number] += 1
        last[number] = padding
    return ((number, count, last[number]) for number, count in counts.items())


def _expected_update(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    counts: Counter[int] = Counter()
    highest: dict[int, int] = {}
    for key, value in recorded.rows("event", "key", "value"):
        counts[key] += 1
        highest[key] = max(value, highest.get(key, value))
    return ((key, count, highest[key]) for key, count in counts.items())


def _expected_window_append(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    counts: Counter[Row] = Counter()
    for time, key in recorded.rows("event", "time", "key"):
        for start in window_starts(time, query.window, query.slide):
            counts[start, start + query.window * SECOND, key] += 1
    return ((*key, count) for key, count in counts.items())


def _expected_window_median(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    values: dict[Row, list[float]] = defaultdict(list)
    for time, key, value in recorded.rows("event", "time", "key", "value"):
        (start,) = window_starts(time, query.window)
        values[start, start + query.window * SECOND, key].append(value / 3.0)
    return ((*key, statistics.median(found)) for key, found in values.items())


READWRITE = Workload(
    name="readwrite",
    title="ReadWrite: a count and the last payload of each id",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=ReadWriteOptions(),
    build=_readwrite,
    output_mode="update",
    reference=_expected_readwrite,
    key=("id",),
)
UPDATE = Workload(
    name="update",
    title="Update: count and maximum of each key",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=KeyedOptions(),
    build=_update,
    output_mode="update",
    reference=_expected_update,
    key=("key",),
)
WINDOW_APPEND = Workload(
    name="window-append",
    title="Window-append: a count of each key, per sliding window, shown when it closes",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=KeyedOptions(),
    build=_window_append,
    output_mode="append",
    reference=_expected_window_append,
    query=QueryOptions(window=10, slide=5),
    time="start",
    seconds_per_batch=1,
)
WINDOW_MEDIAN = Workload(
    name="window-median",
    title="Window-median: the median of each key's values, over windows of 200 batches",
    patterns=(Pattern.ALIGNED_APPEND,),
    events=KeyedOptions(keys=1_000, values=1 << 40),
    build=_window_median,
    output_mode="append",
    reference=_expected_window_median,
    query=QueryOptions(window=200, slide=200),
    time="start",
    rows_per_batch=50_000,
    seconds_per_batch=1,
)
WORKLOADS = (READWRITE, UPDATE, WINDOW_APPEND, WINDOW_MEDIAN)
