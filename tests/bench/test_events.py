"""The events: their shares, ranges and repeatability."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tailrace.bench.events import (
    ClusterOptions,
    EventOptions,
    KeyedOptions,
    LinearRoadOptions,
    NexmarkOptions,
    ReadWriteOptions,
    SettledNexmarkOptions,
    SettledReadWriteOptions,
    YsbOptions,
    batch,
    changed,
    parsed,
    stream,
    write_files,
)
from tailrace.bench.events.base import FILE_OPTIONS, SILENCE_SECONDS, START_MICROS
from tailrace.bench.events.nexmark import FIRST_ID
from tailrace.bench.events.numbers import padding, permuted, zipf
from tailrace.bench.workloads.recorded import Row, tuples
from tailrace.errors import OptionError

ALL: list[EventOptions] = [
    NexmarkOptions(),
    LinearRoadOptions(),
    ClusterOptions(),
    YsbOptions(),
    ReadWriteOptions(),
    KeyedOptions(),
    SettledNexmarkOptions(),
    SettledReadWriteOptions(),
]
PERIODS = 200  # of 50 events each: two blocks of hot people, six of hot auctions


def rows(spark: SparkSession, options: EventOptions, table: str, n: int) -> list[dict[str, Any]]:
    frame = batch(spark, options, n).table(table)
    return [dict(zip(frame.columns, row, strict=True)) for row in tuples(frame)]


def streamed(spark: SparkSession, options: EventOptions, table: str, n: int) -> Counter[Row]:
    found: list[Row] = []
    query = (
        stream(spark, options, n)
        .table(table)
        .writeStream.foreachBatch(lambda frame, _: found.extend(tuples(frame)))
        .trigger(availableNow=True)  # of this source: one batch
        .start()
    )
    query.awaitTermination()
    return Counter(found)


def test_nexmark_has_the_kinds_in_their_shares(spark: SparkSession) -> None:
    counts = {
        table: len(rows(spark, NexmarkOptions(), table, 50 * PERIODS))
        for table in NexmarkOptions.TABLES
    }
    assert counts == {"person": PERIODS, "auction": 3 * PERIODS, "bid": 46 * PERIODS}


def test_nexmark_ids_are_dense_and_name_what_exists_or_soon_will(spark: SparkSession) -> None:
    n = 50 * PERIODS
    people = rows(spark, NexmarkOptions(), "person", n)
    auctions = rows(spark, NexmarkOptions(), "auction", n)
    bids = rows(spark, NexmarkOptions(), "bid", n)
    assert sorted(row["id"] for row in people) == list(range(FIRST_ID, FIRST_ID + PERIODS))
    assert sorted(row["id"] for row in auctions) == list(range(FIRST_ID, FIRST_ID + 3 * PERIODS))
    assert {row["category"] for row in auctions} == {10, 11, 12, 13, 14}
    for bid in bids:
        period = (bid["time"] - START_MICROS) * 10_000 // 1_000_000 // 50
        last = FIRST_ID + 3 * period + 2
        assert max(FIRST_ID, last - 100) <= bid["auction"] <= last + 10
        assert FIRST_ID <= bid["bidder"] <= FIRST_ID + period + 10
        assert 100 <= bid["price"] <= 100_000_000


def test_nexmark_hot_ones_have_their_shares(spark: SparkSession) -> None:
    n = 50 * PERIODS
    # Without cold draws that happen to hit a hot id, the shares are exact up to chance.
    options = NexmarkOptions(
        auctions_in_flight=100_000, active_people=100_000, first_event=5 * 10**7
    )
    bids = rows(spark, options, "bid", n)
    auctions = rows(spark, options, "auction", n)
    hot_auctions = sum((bid["auction"] - FIRST_ID) % 100 == 0 for bid in bids) / len(bids)
    hot_bidders = sum((bid["bidder"] - FIRST_ID) % 100 == 1 for bid in bids) / len(bids)
    hot_sellers = sum((it["seller"] - FIRST_ID) % 100 == 0 for it in auctions) / len(auctions)
    assert hot_auctions == pytest.approx(0.505, abs=0.02)
    assert hot_bidders == pytest.approx(0.7525, abs=0.02)
    assert hot_sellers == pytest.approx(0.7525, abs=0.06)


def test_nexmark_hot_keys_change_with_time_if_asked(spark: SparkSession) -> None:
    options = NexmarkOptions(
        rate=1000, active_seconds=7200, hot_seconds=1.0, hot_auction_share=1.0, hot_bidder_share=1.0
    )
    bids = rows(spark, options, "bid", 5000)
    for column in ("auction", "bidder"):
        per_second: dict[int, set[int]] = {}
        for bid in bids:
            second = (bid["time"] - START_MICROS) // 1_000_000
            per_second.setdefault(second, set()).add(bid[column])
        assert all(len(hot) == 1 for hot in per_second.values())
        assert len(set.union(*per_second.values())) == 5


def test_nexmark_stays_active_for_the_window_asked_for(spark: SparkSession) -> None:
    options = NexmarkOptions(
        rate=1000, active_seconds=100, hot_auction_share=0.0, first_event=1_000_000, id_lead=0
    )
    bids = rows(spark, options, "bid", 5000)
    ages = [3 * (1_000_000 // 50) + FIRST_ID - bid["auction"] for bid in bids]
    assert 5800 < max(ages) <= 6000  # 100 s * 1000 / s * 3 / 50


@pytest.mark.parametrize("size", [100, 200])
def test_rows_have_the_size_asked_for(spark: SparkSession, size: int) -> None:
    bids = rows(spark, NexmarkOptions(bid_bytes=size), "bid", 1000)
    sizes = [
        sum(len(value) if isinstance(value, str) else 8 for value in bid.values()) for bid in bids
    ]
    assert sum(sizes) / len(sizes) == pytest.approx(size, abs=3)


def test_prices_follow_their_law(spark: SparkSession) -> None:
    prices = [bid["price"] for bid in rows(spark, NexmarkOptions(), "bid", 50 * PERIODS)]
    # round(10^(6u) * 100): a third of them below 10^2 * 100.
    assert sum(price < 10_000 for price in prices) / len(prices) == pytest.approx(1 / 3, abs=0.03)


def test_ysb_has_a_third_of_views_and_knows_every_ad(spark: SparkSession) -> None:
    events = rows(spark, YsbOptions(), "event", 6000)
    ads: dict[str, str] = dict(tuples(batch(spark, YsbOptions(), 1).static("ad")))
    assert len(ads) == 1000
    assert set(Counter(ads.values()).values()) == {10}
    assert {event["ad"] for event in events} <= set(ads)
    views = sum(event["event_type"] == "view" for event in events)
    assert views / len(events) == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.5])
def test_zipf_stays_in_range_and_falls_with_the_rank(spark: SparkSession, exponent: float) -> None:
    drawn = spark.range(20_000).select(zipf(F.col("id"), 1, "test", 50, exponent).alias("rank"))
    counts = Counter(rank for (rank,) in tuples(drawn))
    assert set(counts) <= set(range(50))
    if exponent:
        assert counts[0] > 1.4 * counts[1] > 1.4 * counts[10]
    else:
        assert max(counts.values()) < 1.4 * min(counts.values())


@pytest.mark.parametrize("group", [1, 2, 3, 10, 97, 1000])
def test_disorder_is_a_permutation_inside_groups(spark: SparkSession, group: int) -> None:
    moved = spark.range(3000).select("id", permuted(F.col("id"), 7, group).alias("place"))
    pairs = tuples(moved)
    whole = 3000 // group * group
    assert sorted(place for number, place in pairs if number < whole) == list(range(whole))
    assert all(number // group == place // group for number, place in pairs)
    assert (group == 1) == all(number == place for number, place in pairs)


def test_disorder_changes_the_order_but_not_the_events(spark: SparkSession) -> None:
    in_order = Counter(tuples(batch(spark, NexmarkOptions(), 1000).table("bid")))
    options = NexmarkOptions(disorder=100)
    assert Counter(tuples(batch(spark, options, 1000).table("bid"))) == in_order
    times = [time for (time,) in tuples(batch(spark, options, 1000).table("bid").select("time"))]
    assert times != sorted(times)


@pytest.mark.parametrize("options", ALL, ids=lambda options: type(options).__name__)
def test_a_stream_and_a_bounded_table_have_the_same_events(
    spark: SparkSession, options: EventOptions
) -> None:
    options = changed(options, disorder=20)
    for table in options.TABLES:
        expected = Counter(tuples(batch(spark, options, 1000).table(table)))
        assert streamed(spark, options, table, 1000) == expected
        assert Counter(tuples(batch(spark, options, 1000).table(table))) == expected
        reseeded = changed(options, seed=43)
        assert table == "person" or Counter(tuples(batch(spark, reseeded, 1000).table(table))) != (
            expected
        )


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_files_have_the_same_events(spark: SparkSession, tmp_path: Path, form: str) -> None:
    options = {"parquet": NexmarkOptions(), "json": LinearRoadOptions()}[form]
    write_files(spark, options, 1000, tmp_path, 2, form)
    for table in options.TABLES:
        frame = batch(spark, options, 1000).table(table)
        names = sorted(path.name for path in (tmp_path / table).iterdir() if path.suffix != ".crc")
        assert names == [f"{index:05}.{form}" for index in range(2)]
        reader = spark.read.format(form).schema(frame.schema).options(**FILE_OPTIONS)
        read = reader.load((tmp_path / table).as_uri())
        assert Counter(tuples(read)) == Counter(tuples(frame))


def test_events_after_the_end_come_much_later(spark: SparkSession) -> None:
    times = sorted(row["time"] for row in rows(spark, KeyedOptions(end=60), "event", 100))
    gap = times[60] - times[59]
    assert gap > SILENCE_SECONDS * 1_000_000
    assert times[:60] == sorted(row["time"] for row in rows(spark, KeyedOptions(), "event", 60))


def test_padding_differs_and_has_its_length(spark: SparkSession) -> None:
    texts = [t for (t,) in tuples(spark.range(200).select(padding(F.col("id"), 1, "x", 40)))]
    assert {len(text) for text in texts} == {40}
    assert len(set(texts)) > 190


@pytest.mark.parametrize(
    "values", [{"rate": 0}, {"rate": 1.5}, {"bid_bytes": -1}, {"hot_auction_share": 1.1},
               {"seed": None}, {"seed": True}, {"disorder": 0}],
)  # fmt: skip
def test_a_value_out_of_range_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as caught:
        changed(NexmarkOptions(), **values)
    assert next(iter(values)) in caught.value.problem


def test_options_are_read_from_text() -> None:
    read = parsed(
        NexmarkOptions(), {"rate": "5_000", "hot_seconds": "0.5", "active_seconds": "none"}
    )
    assert (read.rate, read.hot_seconds, read.active_seconds) == (5000, 0.5, None)
    with pytest.raises(OptionError, match="Did you mean rate"):
        parsed(NexmarkOptions(), {"rates": "5"})
    with pytest.raises(OptionError, match="does not take the value 'fast'"):
        parsed(NexmarkOptions(), {"rate": "fast"})
    with pytest.raises(OptionError, match="no table"):
        NexmarkOptions().static("nothing", None)  # type: ignore[arg-type]


def test_a_batch_without_rows_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OptionError):
        stream(spark, NexmarkOptions(), 0)


def test_settled_state_has_every_key_before_anything_else(spark: SparkSession) -> None:
    options = SettledNexmarkOptions(auctions=40, bidders=3, bids=2, rate=100, hot_auction_share=0.5)
    assert options.preload == 40 + 40 * 3 * 2
    auctions = rows(spark, options, "auction", options.preload)
    assert [row["id"] for row in auctions] == list(range(FIRST_ID, FIRST_ID + 40))
    assert {row["category"] for row in auctions} == {10}
    assert len({row["key"] for row in rows(spark, options, "side", 280)}) == 40
    bids = Counter((b["auction"], b["bidder"]) for b in rows(spark, options, "bid", 280))
    assert len(bids) == 120
    assert set(bids.values()) == {2}
    later = rows(spark, options, "bid", options.preload + 5_000)[240:]
    assert len(later) == 4_600
    assert {(b["auction"], b["bidder"]) for b in later} <= set(bids)
    second = [b["auction"] for b in later[2_000:2_080]]
    assert Counter(second).most_common(1)[0][1] > 20, "half of the bids are on the hot auction"
    opened = {row["id"] for row in rows(spark, options, "auction", options.preload + 5_000)}
    assert opened == set(range(FIRST_ID, FIRST_ID + 340))


def test_settled_ids_are_there_once_before_they_come_again(spark: SparkSession) -> None:
    options = SettledReadWriteOptions(keys=50)
    found = [row["id"] for row in rows(spark, options, "event", 500)]
    assert found[:50] == list(range(50))
    assert set(found[50:]) == set(range(50))
