"""The Yahoo Streaming Benchmark: views of each campaign.

Problem: an event names an advertisement, and the count is wanted per campaign.
Answer: a join with the table of advertisements, then a windowed count in update mode. `ysb` has
the table in Spark. `ysb-redis` has it in a Redis server, as in Keyed Prefetching, and the cache of
a Python worker holds less than a tenth of it.
Invariant: every view is counted in exactly one window of one campaign. Each query that is built
has a table of its own, so that the caches of two queries share nothing.

The setting ENRICHMENT of the query's session, as JSON, has arguments of `tailrace.enrich` that it
uses in place of those here: caches and ways to read are compared so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import tailrace
from tailrace.bench import redis_server
from tailrace.bench.events import Source, YsbOptions, YsbRedisOptions
from tailrace.bench.far_redis import FarRedisSource
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, window_starts
from tailrace.enrich import Metrics

ENRICHMENT = "tailrace.bench.enrichment"
_AT_ONCE = 10_000
"""Advertisements that are sent to Redis together."""
_tables = itertools.count()
_built: list[Metrics] = []
"""Of the queries that were built within `counted`."""


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], dict[str, int]]]:
    """Gives the counts of the enrichments of a query that is built within; none if it has none."""
    _built.clear()
    found: list[Metrics] = []

    def counts() -> dict[str, int]:
        all_counts = [dataclasses.asdict(metrics.counts()) for metrics in found]
        return {f"enrich/{name}": value for each in all_counts for name, value in each.items()}

    yield counts
    found += _built


def _ysb(source: Source, query: QueryOptions) -> DataFrame:
    return _counted(_views(source, query).join(source.static("ad"), "ad"), query)


def _ysb_redis(source: Source, query: QueryOptions) -> DataFrame:
    options = source.options
    assert isinstance(options, YsbRedisOptions)
    _built.append(Metrics(source.spark))
    arguments: dict[str, Any] = {
        "look_ahead": options.look_ahead,
        "cache_memory": f"{options.cache_kib}k",
    }
    arguments |= json.loads(str(source.spark.conf.get(ENRICHMENT, "{}")))
    joined = tailrace.enrich(
        _views(source, query),
        "ad",
        _in_redis(source.static("ad"), options.round_trip_ms),
        "campaign string",
        how="inner",
        ttl=None,
        metrics=_built[-1],
        **arguments,
    )
    return _counted(joined, query)


def _in_redis(ads: DataFrame, round_trip_ms: int) -> FarRedisSource:
    """Puts the table of advertisements into this process's Redis server."""
    server = redis_server.shared()
    prefix = f"table-{next(_tables)}:"
    rows = iter(ads.select("ad", "campaign").collect())
    while part := list(itertools.islice(rows, _AT_ONCE)):
        pipeline = server.client.pipeline(transaction=False)
        for ad, campaign in part:
            pipeline.hset(prefix + ad, "campaign", campaign)
        pipeline.execute()
    return FarRedisSource(server.url, key=prefix + "{ad}", round_trip_ms=round_trip_ms)


def _views(source: Source, query: QueryOptions) -> DataFrame:
    return (
        source.table("event")
        .where(F.col("event_type") == "view")
        .select("ad", "time")
        .withWatermark("time", seconds(query.delay))
    )


def _counted(views: DataFrame, query: QueryOptions) -> DataFrame:
    return (
        views.groupBy(F.window("time", seconds(query.window)), "campaign")
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
YSB_REDIS = replace(
    YSB,
    name="ysb-redis",
    title="Yahoo Streaming Benchmark with the campaigns in a Redis server",
    events=YsbRedisOptions(),
    build=_ysb_redis,
)
WORKLOADS = (YSB, YSB_REDIS)
