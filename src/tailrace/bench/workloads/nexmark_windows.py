"""NEXMark's queries over tumbling and sliding windows: Q5, Q5-Append, Q7, Q8.

Problem: these queries take two steps, of which the second needs complete windows of the first.
Answer: append mode with chained stateful operators, as Spark allows it with a watermark.
Invariant: a window's rows are shown once, when the watermark has passed its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import NexmarkOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts


def _bids_per_auction(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("bid")
        .withWatermark("time", seconds(query.delay))
        .groupBy(F.window("time", seconds(query.window), seconds(query.slide)), "auction")
        .agg(F.count("*").alias("bids"))
    )


def _q5(source: Source, query: QueryOptions) -> DataFrame:
    """Of several auctions with equally many bids the latest is shown."""
    return (
        _bids_per_auction(source, query)
        .groupBy("window")
        .agg(F.max(F.struct("bids", "auction")).alias("hottest"))
        .select("window.start", "window.end", "hottest.auction", "hottest.bids")
    )


def _q5_append(source: Source, query: QueryOptions) -> DataFrame:
    """All auctions with the most bids are shown."""
    return (
        _bids_per_auction(source, query)
        .groupBy("window")
        .agg(F.collect_list(F.struct("bids", "auction")).alias("auctions"))
        .select("window", F.array_max("auctions")["bids"].alias("most"), F.explode("auctions"))
        .where("col.bids = most")
        .select("window.start", "window.end", "col.auction", "col.bids")
    )


def _q7(source: Source, query: QueryOptions) -> DataFrame:
    """As in NEXMark's SQL: the highest price of a window, joined with the bids that have it.

    Spark wants one event time on each side of a join. That is the window, so the time of the bid
    itself is carried as a copy from before the watermark.
    """
    bids = (
        source.table("bid")
        .withColumn("placed", F.col("time"))
        .withWatermark("time", seconds(query.delay))
        .withColumn("window", F.window("time", seconds(query.window)))
        .drop("time")
    )
    highest = bids.groupBy("window").agg(F.max("price").alias("price"))
    return bids.join(highest, ["window", "price"]).select(
        "window.start", "window.end", "price", "auction", "bidder", "placed", "extra"
    )


def _q8(source: Source, query: QueryOptions) -> DataFrame:
    window = F.window("time", seconds(query.window)).alias("window")
    people = (
        source.table("person")
        .withWatermark("time", seconds(query.delay))
        .select(window, F.col("id").alias("person"), "name")
    )
    auctions = (
        source.table("auction")
        .withWatermark("time", seconds(query.delay))
        .select(window, F.col("seller").alias("person"), F.col("id").alias("auction"), "reserve")
    )
    return people.join(auctions, ["window", "person"]).select(
        "window.start", "window.end", "person", "name", "auction", "reserve"
    )


def _counts(recorded: Recorded, query: QueryOptions) -> dict[int, Counter[int]]:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for time, auction in recorded.rows("bid", "time", "auction"):
        for start in window_starts(time, query.window, query.slide):
            counts[start][auction] += 1
    return counts


def _expected_q5(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, counts in _counts(recorded, query).items():
        bids, auction = max((bids, auction) for auction, bids in counts.items())
        yield start, start + query.window * SECOND, auction, bids


def _expected_q5_append(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, counts in _counts(recorded, query).items():
        most = max(counts.values())
        for auction, bids in counts.items():
            if bids == most:
                yield start, start + query.window * SECOND, auction, bids


def _expected_q7(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    windows: dict[int, list[Row]] = defaultdict(list)
    for bid in recorded.rows("bid", "price", "auction", "bidder", "time", "extra"):
        (start,) = window_starts(bid[3], query.window)
        windows[start].append(bid)
    for start, bids in windows.items():
        highest = max(bid[0] for bid in bids)
        for bid in bids:
            if bid[0] == highest:
                yield start, start + query.window * SECOND, *bid


def _expected_q8(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    opened: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for time, seller, auction, reserve in recorded.rows(
        "auction", "time", "seller", "id", "reserve"
    ):
        (start,) = window_starts(time, query.window)
        opened[start, seller].append((auction, reserve))
    for time, person, name in recorded.rows("person", "time", "id", "name"):
        (start,) = window_starts(time, query.window)
        for auction, reserve in opened.get((start, person), ()):
            yield start, start + query.window * SECOND, person, name, auction, reserve


Q5 = Workload(
    name="q5",
    title="NEXMark Q5: the auction with the most bids, per sliding window",
    patterns=(Pattern.READ_MODIFY_WRITE, Pattern.READ_MODIFY_WRITE),
    events=NexmarkOptions(),
    build=_q5,
    output_mode="append",
    reference=_expected_q5,
    time="start",
)
Q5_APPEND = Workload(
    name="q5-append",
    title="NEXMark Q5-Append: Q5 whose second step keeps all counts of a window",
    patterns=(Pattern.READ_MODIFY_WRITE, Pattern.ALIGNED_APPEND),
    events=NexmarkOptions(),
    build=_q5_append,
    output_mode="append",
    reference=_expected_q5_append,
    time="start",
)
Q7 = Workload(
    name="q7",
    title="NEXMark Q7: the highest bid and who made it, per window",
    patterns=(Pattern.READ_MODIFY_WRITE, Pattern.ALIGNED_APPEND),
    events=NexmarkOptions(),
    build=_q7,
    output_mode="append",
    reference=_expected_q7,
    time="start",
)
Q8 = Workload(
    name="q8",
    title="NEXMark Q8: people who registered and opened an auction in the same window",
    patterns=(Pattern.ALIGNED_APPEND, Pattern.JOIN),
    events=NexmarkOptions(),
    build=_q8,
    output_mode="append",
    reference=_expected_q8,
    time="start",
)
WORKLOADS = (Q5, Q5_APPEND, Q7, Q8)
