"""The cluster monitoring queries as MiSA has them: CM1 and CM2.

Problem: CM1 sorts, which Spark allows after an aggregation in complete mode only.
Answer: complete mode, as a user would have to: the state of all windows stays and is shown again
in every batch. CM2 is an aggregation in update mode.
Invariant: sums are exact (the events see to it), so results can be compared as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import ClusterOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts

EVENT_TYPE = 1


def _cm1(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("task")
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.window("time", seconds(query.window), seconds(query.slide)), "category")
        .agg(F.sum("cpu").alias("total_cpu"))
        .select("window.start", "window.end", "category", "total_cpu")
        .orderBy("total_cpu")
    )


def _cm2(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("task")
        .where(F.col("event_type") == EVENT_TYPE)
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.window("time", seconds(query.window), seconds(query.slide)), "job")
        .agg(F.avg("cpu").alias("average_cpu"))
        .select("window.start", "window.end", "job", "average_cpu")
    )


def _expected_cm1(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    sums: dict[Row, float] = defaultdict(float)
    for time, category, cpu in recorded.rows("task", "time", "category", "cpu"):
        for start in window_starts(time, query.window, query.slide):
            sums[start, start + query.window * SECOND, category] += cpu
    return ((*key, total) for key, total in sums.items())


def _expected_cm2(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    values: dict[Row, list[float]] = defaultdict(list)
    for time, kind, job, cpu in recorded.rows("task", "time", "event_type", "job", "cpu"):
        if kind == EVENT_TYPE:
            for start in window_starts(time, query.window, query.slide):
                values[start, start + query.window * SECOND, job].append(cpu)
    return ((*key, sum(cpus) / len(cpus)) for key, cpus in values.items())


CM1 = Workload(
    name="cm1",
    title="Cluster monitoring 1: cpu of each category, per sliding window, sorted",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=ClusterOptions(),
    build=_cm1,
    output_mode="complete",
    reference=_expected_cm1,
    query=QueryOptions(window=60, slide=10),
    rows_per_batch=4_500,
)
CM2 = Workload(
    name="cm2",
    title="Cluster monitoring 2: average cpu of each job, per sliding window",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=ClusterOptions(),
    build=_cm2,
    output_mode="update",
    reference=_expected_cm2,
    query=QueryOptions(window=30, slide=1),
    key=("start", "job"),
    rows_per_batch=4_500,
)
WORKLOADS = (CM1, CM2)
