"""State that is there before anything is measured: NEXMark and ReadWrite, settled.

Problem: state of ten times its cache has to be there at the first measured batch, and keys have to
come again, or nothing is ever read back; NEXMark's bids go to ids that are always new.
Answer: the first events of a stream make its state, each key once, in the order of their numbers;
all others draw from these keys. Q18 has a pair of bidder and auction for its key, so each auction
has a fixed number of bidders.
Invariant: after `preload` events every key has been there, so the state has its size.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events.base import option
from tailrace.bench.events.nexmark import (
    AUCTIONS,
    FIRST_CATEGORY,
    FIRST_ID,
    PERIOD,
    PERSONS,
    NexmarkOptions,
)
from tailrace.bench.events.numbers import below, chance, noise, zipf
from tailrace.bench.events.readwrite import ReadWriteOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class SettledNexmarkOptions(NexmarkOptions):
    """NEXMark's tables, and `side`, Q13's table as a stream: a row with each auction.

    1. The first `auctions` events open an auction each (category 10).
    2. `bids` times, each of the bidders of each auction bids.
    3. Then NEXMark: of 50 events one is a person, three are new auctions and the rest are bids, on
       any auction, or on the hot one, which changes every `hot_seconds`.
    """

    TABLES: ClassVar[tuple[str, ...]] = (*NexmarkOptions.TABLES, "side")

    auctions: int = option(300, "Auctions that were opened before.", least=1)
    bidders: int = option(1, "People who bid on an auction, again and again.", least=1)
    bids: int = option(1, "How often each of them bids before.")
    bid_bytes: int = option(200, "Average size of a bid, as in Keyed Prefetching.", most=4096)
    hot_seconds: float | None = option(
        1.0, "The hot auction changes every so many seconds.", least=0.001
    )

    @property
    def preload(self) -> int:
        """The events of 1. and 2."""
        return self.auctions * (1 + self.bidders * self.bids)

    def columns(self, table: str, events: DataFrame) -> DataFrame:
        s, first = F.col("sequence"), self.auctions
        kind = F.pmod(s - self.preload, F.lit(PERIOD))
        later = s >= self.preload
        opening = (s < first) | (later & (kind >= PERSONS) & (kind < PERSONS + AUCTIONS))
        if table == "side":
            text = self._extra("side", 20)
            return events.where(opening).select(
                (self._auction_number() + FIRST_ID).alias("key"),
                text.alias("description"),
                F.col("time").alias("since"),
            )
        if table == "auction":
            return self._auctions(events.where(opening))
        if table == "bid":
            bidding = (s >= first) & ~(later & (kind < PERSONS + AUCTIONS))
            return self._bids(events.where(bidding))
        return self._persons(events.where(later & (kind < PERSONS)))

    def _extra(self, table: str, length: int) -> Column:
        return noise(F.col("sequence"), self.seed, table, length)

    def _auction_number(self) -> Column:
        s, since = F.col("sequence"), f"(sequence - {self.preload})"
        new = F.expr(f"{since} div {PERIOD} * {AUCTIONS} + {since} % {PERIOD} - {PERSONS}")
        return F.when(s < self.auctions, s).otherwise(new + self.auctions)

    def _category(self) -> Column:
        settled = F.col("sequence") < self.auctions
        return F.when(settled, F.lit(FIRST_CATEGORY).cast("long")).otherwise(super()._category())

    def _bid_auction(self) -> Column:
        s = F.col("sequence")
        cold = below(s, self.seed, "auction", self.auctions)
        interval = F.expr(f"sequence div {max(1, round(self.rate * (self.hot_seconds or 1)))}")
        hot = below(interval, self.seed, "hot auction of now", self.auctions)
        is_hot = chance(s, self.seed, "hot auction", self.hot_auction_share)
        drawn = F.when(is_hot, hot).otherwise(cold)
        settling = F.pmod(s - self.auctions, F.lit(self.auctions))
        return F.when(s < self.preload, settling).otherwise(drawn) + FIRST_ID

    def _person(self, what: str, hot_share: float, place: int) -> Column:
        if what != "bidder":
            return super()._person(what, hot_share, place)
        s = F.col("sequence")
        drawn = below(s, self.seed, what, self.bidders)
        first = F.expr(f"(sequence - {self.auctions}) div {self.auctions}") % self.bidders
        return F.when(s < self.preload, first).otherwise(drawn) + FIRST_ID


@dataclasses.dataclass(frozen=True, kw_only=True)
class SettledReadWriteOptions(ReadWriteOptions):
    """ReadWrite whose first `keys` events have each id once."""

    keys: int = option(300, "Different ids.", least=1)

    @property
    def preload(self) -> int:
        return self.keys

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        s = F.col("sequence")
        drawn = zipf(s, self.seed, "id", self.keys, self.exponent)
        return events.select(
            F.when(s < self.keys, s).otherwise(drawn).alias("id"),
            noise(s, self.seed, "padding", self.padding_bytes).alias("padding"),
            "time",
        )
