"""NEXMark's queries over keys without windows: Q12, Q13, Q18, Q19, Q20.

Problem: their state grows with the keys, and every event reads or writes one of them.
Answer: plain aggregations in update mode, a join with a bounded table, and joins of two streams.
Invariant: a key's latest row is right at the end of every batch. Q20's state ends with the time
that an auction is open (`window`), and that of q13-state, whose table is a stream, as late.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import NexmarkOptions, SettledNexmarkOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row

CATEGORY = 10


def _q12(source: Source, query: QueryOptions) -> DataFrame:  # noqa: ARG001 - has no sizes
    return source.table("bid").groupBy("bidder").agg(F.count("*").alias("bids"))


def _q13(source: Source, query: QueryOptions) -> DataFrame:  # noqa: ARG001 - has no sizes
    side = source.static("side")
    rows = F.lit(source.options.side_rows if isinstance(source.options, NexmarkOptions) else 1)
    bids = source.table("bid").withColumn("key", F.pmod("auction", rows))
    return bids.join(side, "key").select(
        "auction", "bidder", "price", "time", "extra", "description"
    )


def _q13_state(source: Source, query: QueryOptions) -> DataFrame:
    bids = source.table("bid").withWatermark("time", seconds(query.delay))
    side = source.table("side").withWatermark("since", seconds(query.delay))
    known = F.expr(f"time >= since AND time <= since + INTERVAL {query.window} SECONDS")
    return bids.join(side, (F.col("auction") == F.col("key")) & known).select(
        "auction", "bidder", "price", "time", "extra", "description"
    )


def _q18(source: Source, query: QueryOptions) -> DataFrame:  # noqa: ARG001 - has no sizes
    last = F.max_by(F.struct("price", "channel", "time", "extra"), "time")
    return (
        source.table("bid").groupBy("bidder", "auction").agg(last.alias("last"))
        .select("bidder", "auction", "last.*")
    )  # fmt: skip


def _q19(source: Source, query: QueryOptions) -> DataFrame:
    """Of bids with the same price the later one is better."""
    bid = F.struct("price", "bidder", "channel", "time", "extra")
    best = F.max_by(bid, F.struct("price", "time"), query.top)
    return (
        source.table("bid")
        .groupBy("auction")
        .agg(best.alias("best"))
        .select("auction", F.posexplode("best").alias("rank", "bid"))
        .select("auction", "rank", "bid.*")
    )


def _q20(source: Source, query: QueryOptions) -> DataFrame:
    bids = source.table("bid").withWatermark("time", seconds(query.delay))
    auctions = (
        source.table("auction")
        .where(F.col("category") == CATEGORY)
        .withColumnsRenamed({"time": "opened", "extra": "auction_extra"})
        .withWatermark("opened", seconds(query.delay))
    )
    is_open = F.expr(f"time >= opened AND time <= opened + INTERVAL {query.window} SECONDS")
    return bids.join(auctions, (F.col("auction") == F.col("id")) & is_open).select(
        "auction", "bidder", "price", "time", "item", "opened", "seller", "extra", "auction_extra"
    )


def _expected_q12(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    return iter(Counter(bidder for (bidder,) in recorded.rows("bid", "bidder")).items())


def _expected_q13(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    side: dict[int, str] = dict(recorded.static("side", "key", "description"))
    for bid in recorded.rows("bid", "auction", "bidder", "price", "time", "extra"):
        yield *bid, side[bid[0] % len(side)]


def _expected_q13_state(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    side = {
        key: (description, since)
        for key, description, since in recorded.rows("side", "key", "description", "since")
    }
    for bid in recorded.rows("bid", "auction", "bidder", "price", "time", "extra"):
        if bid[0] in side:
            description, since = side[bid[0]]
            if since <= bid[3] <= since + query.window * SECOND:
                yield *bid, description


def _expected_q18(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    last: dict[Row, Row] = {}
    columns = ("time", "bidder", "auction", "price", "channel", "extra")
    for time, bidder, auction, price, channel, extra in sorted(recorded.rows("bid", *columns)):
        last[bidder, auction] = (price, channel, time, extra)
    return ((*key, *bid) for key, bid in last.items())


def _expected_q19(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    best: dict[int, list[Row]] = defaultdict(list)
    columns = ("auction", "price", "time", "bidder", "channel", "extra")
    for auction, *bid in recorded.rows("bid", *columns):
        heapq.heappush(best[auction], tuple(bid))
        if len(best[auction]) > query.top:
            heapq.heappop(best[auction])
    for auction, bids in best.items():
        for rank, (price, time, *rest, extra) in enumerate(sorted(bids, reverse=True)):
            yield auction, rank, price, *rest, time, extra


def _expected_q20(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    columns = ("id", "category", "item", "time", "seller", "extra")
    auctions = {
        number: tuple(rest)
        for number, category, *rest in recorded.rows("auction", *columns)
        if category == CATEGORY
    }
    for *bid, extra in recorded.rows("bid", "auction", "bidder", "price", "time", "extra"):
        if bid[0] in auctions:
            item, opened, seller, auction_extra = auctions[bid[0]]
            if opened <= bid[3] <= opened + query.window * SECOND:
                yield *bid, item, opened, seller, extra, auction_extra


Q12 = Workload(
    name="q12",
    title="NEXMark Q12: bids of each bidder since the beginning",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=NexmarkOptions(),
    build=_q12,
    output_mode="update",
    reference=_expected_q12,
    key=("bidder",),
)
Q13 = Workload(
    name="q13",
    title="NEXMark Q13: bids with a description from a bounded table",
    patterns=(Pattern.STATELESS,),
    events=NexmarkOptions(),
    build=_q13,
    output_mode="append",
    reference=_expected_q13,
    time="time",
)
Q13_STATE = Workload(
    name="q13-state",
    title="NEXMark Q13 with its table as state: bids joined with a stream of descriptions",
    patterns=(Pattern.JOIN,),
    events=SettledNexmarkOptions(),
    build=_q13_state,
    output_mode="append",
    reference=_expected_q13_state,
    query=QueryOptions(window=7200),
    time="time",
)
Q18 = Workload(
    name="q18",
    title="NEXMark Q18: the last bid of each bidder on each auction",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=NexmarkOptions(),
    build=_q18,
    output_mode="update",
    reference=_expected_q18,
    key=("bidder", "auction"),
)
Q19 = Workload(
    name="q19",
    title="NEXMark Q19: the ten highest bids of each auction",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=NexmarkOptions(),
    build=_q19,
    output_mode="update",
    reference=_expected_q19,
    key=("auction", "rank"),
)
Q20 = Workload(
    name="q20",
    title="NEXMark Q20: bids with their auctions, of one category",
    patterns=(Pattern.JOIN,),
    events=NexmarkOptions(),
    build=_q20,
    output_mode="append",
    reference=_expected_q20,
    query=QueryOptions(window=7200),
    time="time",
)
WORKLOADS = (Q12, Q13, Q13_STATE, Q18, Q19, Q20)
