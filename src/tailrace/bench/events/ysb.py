"""The Yahoo Streaming Benchmark: advertisements are seen and clicked.

Problem: which campaign an advertisement belongs to is in a table beside the stream.
Answer: `event` is the stream, `ad` the bounded table; ad ids are drawn by zipf's law or uniformly.
Invariant: every event's ad is in `ad`, and one event in three is a view. A row has 114 bytes.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import below, padding, zipf

EVENT_TYPES = ("view", "click", "purchase")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
_FIELDS = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class YsbOptions(EventOptions):
    """The table `event`, and the bounded table `ad`."""

    TABLES: ClassVar[tuple[str, ...]] = ("event",)

    campaigns: int = option(100, "Campaigns.", least=1)
    ads_per_campaign: int = option(10, "Advertisements of each.", least=1)
    ad_exponent: float = option(
        0.0, "Exponent of zipf's law for ad ids; 0 is uniform.", least=0, most=10
    )
    event_bytes: int = option(114, "Average size of an event.", most=4096)

    @property
    def ads(self) -> int:
        return self.campaigns * self.ads_per_campaign

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        s = F.col("sequence")
        return events.select(
            below(s, self.seed, "user", 100_000).alias("user"),
            below(s, self.seed, "page", 10_000).alias("page"),
            _name("ad", zipf(s, self.seed, "ad", self.ads, self.ad_exponent)).alias("ad"),
            self._one_of(AD_TYPES, "ad type").alias("ad_type"),
            self._one_of(EVENT_TYPES, "event type").alias("event_type"),
            "time",
            padding(s, self.seed, "event", self.event_bytes - _FIELDS).alias("extra"),
        )

    def static(self, table: str, spark: SparkSession) -> DataFrame:
        if table != "ad":
            return super().static(table, spark)
        # Neighbours in rank belong to different campaigns, or one would have all the hot ads.
        campaign = F.pmod(F.col("id"), F.lit(self.campaigns))
        return spark.range(self.ads).select(
            _name("ad", F.col("id")).alias("ad"), _name("campaign", campaign).alias("campaign")
        )

    def _one_of(self, choices: tuple[str, ...], what: str) -> Column:
        drawn = below(F.col("sequence"), self.seed, what, len(choices))
        return F.array(*[F.lit(choice) for choice in choices])[drawn.cast("int")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class YsbRedisOptions(YsbOptions):
    """The same events with more ads, and how a query reads the table `ad` from Redis."""

    campaigns: int = option(10_000, "Campaigns.", least=1)
    ad_exponent: float = option(
        1.0, "Exponent of zipf's law for ad ids; 0 is uniform.", least=0, most=10
    )
    round_trip_ms: int = option(0, "How far away the server is.", most=10_000)
    look_ahead: int = option(4, "Of how many Arrow batches the ads are read ahead.", most=1000)
    cache_kib: int = option(4096, "What each Python worker may keep.", least=1, most=2**30)


def _name(kind: str, number: Column) -> Column:
    return F.concat(F.lit(kind + "-"), number.cast("string"))
