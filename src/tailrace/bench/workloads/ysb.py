"""The Yahoo Streaming Benchmark: views of each campaign.

Problem: an event names an advertisement, and the count is wanted per campaign.
Answer: a join with the bounded table of advertisements, then a windowed count in update mode.
Invariant: every view is counted in exactly one window of one campaign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import Source, YsbOptions
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts


def _ysb(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("event")
        .where(F.col("event_type") == "view")
        .select("ad", "time")
        .withWatermark("time", seconds(query.delay))
        .join(source.static("ad"), "ad")
        .groupBy(F.window("time", seconds(query.window)), "campaign")
        .agg(F.count("*").alias("views"))
        .select("window.start", "window.end", "campaign", "views")
    )


def _expected_ysb(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    campaigns: dict[str, str] = dict(recorded.static("ad", "ad", "campaign"))
    counts: Counter[Row] = Counter()
    for time, kind, ad in recorded.rows("event", "time", "event_type", "ad"):
        if kind == "view":
            (start,) = window_starts(time, query.window)
            counts[start, start + query.window * SECOND, campaigns[ad]] += 1
    return ((*key, count) for key, count in counts.items())


YSB = Workload(
    name="ysb",
    title="Yahoo Streaming Benchmark: views of each campaign, per window",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=YsbOptions(),
    build=_ysb,
    output_mode="update",
    reference=_expected_ysb,
    key=("start", "campaign"),
)
WORKLOADS = (YSB,)
