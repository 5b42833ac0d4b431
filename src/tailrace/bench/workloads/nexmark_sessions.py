"""NEXMark's queries over sessions of a bidder: Q7-Session, Q11, Q11-Median.

Problem: a session's end is known only when it is over, differently for each bidder.
Answer: `session_window`, in append mode (Spark has no other for it).
Invariant: a session is shown once, when the watermark has passed its end.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from tailrace.bench.events import NexmarkOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import Recorded, Row, sessions


def _per_session(source: Source, query: QueryOptions) -> GroupedData:
    return (
        source.table("bid")
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.session_window("time", seconds(query.gap)).alias("session"), "bidder")
    )


def _q7_session(source: Source, query: QueryOptions) -> DataFrame:
    bid = F.struct("price", "time", "auction")
    return (
        _per_session(source, query)
        .agg(F.array_max(F.collect_list(bid)).alias("best"))
        .select("session.start", "session.end", "bidder", "best.price", "best.auction")
    )


def _q11(source: Source, query: QueryOptions) -> DataFrame:
    return (
        _per_session(source, query)
        .agg(F.count("*").alias("bids"))
        .select("session.start", "session.end", "bidder", "bids")
    )


def _q11_median(source: Source, query: QueryOptions) -> DataFrame:
    return (
        _per_session(source, query)
        .agg(F.median("price").alias("price"))
        .select("session.start", "session.end", "bidder", "price")
    )


def _sessions(recorded: Recorded, query: QueryOptions) -> Iterator[tuple[int, int, int, list[Row]]]:
    bids: dict[int, list[Row]] = defaultdict(list)
    for bidder, time, price, auction in recorded.rows("bid", "bidder", "time", "price", "auction"):
        bids[bidder].append((time, price, auction))
    for bidder, events in bids.items():
        for start, end, members in sessions(events, query.gap):
            yield start, end, bidder, members


def _expected_q7_session(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, end, bidder, bids in _sessions(recorded, query):
        price, _, auction = max((price, time, auction) for time, price, auction in bids)
        yield start, end, bidder, price, auction


def _expected_q11(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, end, bidder, bids in _sessions(recorded, query):
        yield start, end, bidder, len(bids)


def _expected_q11_median(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, end, bidder, bids in _sessions(recorded, query):
        yield start, end, bidder, float(statistics.median(price for _, price, _ in bids))


Q7_SESSION = Workload(
    name="q7-session",
    title="NEXMark Q7-Session: the highest bid of each session of a bidder",
    patterns=(Pattern.UNALIGNED_APPEND,),
    events=NexmarkOptions(),
    build=_q7_session,
    output_mode="append",
    reference=_expected_q7_session,
    time="start",
)
Q11 = Workload(
    name="q11",
    title="NEXMark Q11: bids in each session of a bidder",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=NexmarkOptions(),
    build=_q11,
    output_mode="append",
    reference=_expected_q11,
    time="start",
)
Q11_MEDIAN = Workload(
    name="q11-median",
    title="NEXMark Q11-Median: the median price in each session of a bidder",
    patterns=(Pattern.UNALIGNED_APPEND,),
    events=NexmarkOptions(),
    build=_q11_median,
    output_mode="append",
    reference=_expected_q11_median,
    time="start",
)
WORKLOADS = (Q7_SESSION, Q11, Q11_MEDIAN)
