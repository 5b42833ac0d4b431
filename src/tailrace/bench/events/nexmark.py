"""NEXMark: people open auctions and bid.

Problem: NEXMark's generator is a sequential program; ids that a bid may name depend on how many
people and auctions there are by then.
Answer: of every 50 events the first is a person, the next three are auctions and the rest bids, so
these counts follow from the number alone.
Invariant: ids are dense from FIRST_ID in the order of event time. A bid or an auction names an id
that exists by then, or one that will exist soon (`id_lead`).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import below, chance, fraction, padding

PERSONS, AUCTIONS, PERIOD = 1, 3, 50
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_BLOCK = 100
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

# The bytes of a row beside its padding, with a number as 8 bytes: person, auction, bid.
_PERSON_FIELDS, _AUCTION_FIELDS, _BID_FIELDS = 50, 80, 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class NexmarkOptions(EventOptions):
    """The tables `person`, `auction` and `bid`, and the bounded table `side`."""

    TABLES: ClassVar[tuple[str, ...]] = ("person", "auction", "bid")

    person_bytes: int = option(200, "Average size of a person.", most=4096)
    auction_bytes: int = option(500, "Average size of an auction.", most=4096)
    bid_bytes: int = option(100, "Average size of a bid.", most=4096)
    hot_auction_share: float = option(0.5, "Share of bids that go to the hot auction.", most=1)
    hot_bidder_share: float = option(0.75, "Share of bids that the hot bidder makes.", most=1)
    hot_seller_share: float = option(0.75, "Share of auctions of the hot seller.", most=1)
    auctions_in_flight: int = option(100, "The latest auctions that bids go to.", least=1)
    active_people: int = option(1000, "The latest people who bid and sell.", least=1)
    id_lead: int = option(10, "How many ids that do not exist yet may be named.", least=0)
    active_seconds: int | None = option(
        None,
        "Auctions and people stay active for so long, instead of the two numbers above. Keyed "
        "Prefetching used 7200 for a large state.",
        least=1,
    )
    hot_seconds: float | None = option(
        None,
        "The hot auction and the hot people change every so many seconds. None: they are the "
        "first (bidders: the second) of the latest block of 100.",
        least=0.001,
    )
    side_rows: int = option(10_000, "Rows of the bounded table that Q13 joins with.", least=1)

    def columns(self, table: str, events: DataFrame) -> DataFrame:
        kind = F.pmod(F.col("sequence"), F.lit(PERIOD))
        if table == "person":
            return self._persons(events.where(kind < PERSONS))
        if table == "auction":
            return self._auctions(events.where((kind >= PERSONS) & (kind < PERSONS + AUCTIONS)))
        return self._bids(events.where(kind >= PERSONS + AUCTIONS))

    def static(self, table: str, spark: SparkSession) -> DataFrame:
        if table != "side":
            return super().static(table, spark)
        key = F.col("id")
        text = padding(key, self.seed, "side", 20)
        return spark.range(self.side_rows).select(key.alias("key"), text.alias("description"))

    def _persons(self, events: DataFrame) -> DataFrame:
        s = F.col("sequence")
        number = F.expr(f"sequence div {PERIOD}") + FIRST_ID
        return events.select(
            number.alias("id"),
            F.concat(F.lit("person "), number).alias("name"),
            F.concat(F.lit("city "), below(s, self.seed, "city", 100)).alias("city"),
            "time",
            self._extra("person", self.person_bytes - _PERSON_FIELDS).alias("extra"),
        )

    def _auctions(self, events: DataFrame) -> DataFrame:
        s = F.col("sequence")
        number = self._auction_number()
        seller = self._person("seller", self.hot_seller_share, 0)
        lifetime = below(s, self.seed, "lifetime", 20_000_000) + 1_000_000
        initial = self._price("initial bid")
        return events.select(
            (number + FIRST_ID).alias("id"),
            F.concat(F.lit("item "), number).alias("item"),
            initial.alias("initial_bid"),
            (initial + self._price("reserve")).alias("reserve"),
            "time",
            F.timestamp_micros(F.unix_micros("time") + lifetime).alias("expires"),
            seller.alias("seller"),
            self._category().alias("category"),
            self._extra("auction", self.auction_bytes - _AUCTION_FIELDS).alias("extra"),
        )

    def _extra(self, table: str, length: int) -> Column:
        return padding(F.col("sequence"), self.seed, table, length)

    def _auction_number(self) -> Column:
        return F.expr(f"sequence div {PERIOD} * {AUCTIONS} + sequence % {PERIOD} - {PERSONS}")

    def _category(self) -> Column:
        return below(F.col("sequence"), self.seed, "category", CATEGORIES) + FIRST_CATEGORY

    def _bids(self, events: DataFrame) -> DataFrame:
        s = F.col("sequence")
        channels = F.array(*[F.lit(channel) for channel in CHANNELS])
        channel = channels[below(s, self.seed, "channel", len(CHANNELS)).cast("int")]
        return events.select(
            self._bid_auction().alias("auction"),
            self._person("bidder", self.hot_bidder_share, 1).alias("bidder"),
            self._price("price").alias("price"),
            channel.alias("channel"),
            "time",
            self._extra("bid", self.bid_bytes - _BID_FIELDS).alias("extra"),
        )

    def _price(self, what: str) -> Column:
        power = F.pow(F.lit(10.0), fraction(F.col("sequence"), self.seed, what) * 6)
        return F.round(power * 100).cast("long")

    def _bid_auction(self) -> Column:
        # All auctions of a period come before its bids.
        last = F.expr(f"sequence div {PERIOD} * {AUCTIONS} + {AUCTIONS - 1}")
        in_flight = self.auctions_in_flight
        if self.active_seconds is not None:
            in_flight = max(1, self.rate * self.active_seconds * AUCTIONS // PERIOD)
        oldest = F.greatest(last - in_flight, F.lit(0).cast("long"))
        s = F.col("sequence")
        cold = oldest + below(s, self.seed, "auction", last - oldest + 1 + self.id_lead)
        hot = last - F.pmod(last, F.lit(HOT_BLOCK))
        if self.hot_seconds is not None:
            newest = self._interval_start(F.lit(AUCTIONS)) - 1
            hot = F.greatest(newest, F.lit(0).cast("long"))
        is_hot = chance(s, self.seed, "hot auction", self.hot_auction_share)
        return F.when(is_hot, hot).otherwise(cold) + FIRST_ID

    def _person(self, what: str, hot_share: float, place: int) -> Column:
        s = F.col("sequence")
        people = F.expr(f"sequence div {PERIOD}") + 1
        active = self.active_people
        if self.active_seconds is not None:
            active = max(1, self.rate * self.active_seconds * PERSONS // PERIOD)
        recent = F.least(people, F.lit(active).cast("long"))
        cold = people - recent + below(s, self.seed, what, recent + self.id_lead)
        last = people - 1
        hot = last - F.pmod(last, F.lit(HOT_BLOCK)) + place
        if self.hot_seconds is not None:
            hot = self._interval_start(F.lit(PERSONS)) + place
        is_hot = chance(s, self.seed, "hot " + what, hot_share)
        return F.when(is_hot, hot).otherwise(cold) + FIRST_ID

    def _interval_start(self, per_period: Column) -> Column:
        """How many of a kind there were when the present interval of hot keys began."""
        events = max(1, round(self.rate * (self.hot_seconds or 0)))
        return F.expr(f"(sequence - sequence % {events}) div {PERIOD}") * per_period
