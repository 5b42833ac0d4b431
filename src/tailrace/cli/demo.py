"""Run one stateful query on tailrace and on a store of Spark's, batch by batch in turns."""

# Problem: a comparison of two stores is only believed if both do the same work on the same
#   machine at the same time of day, warmed up, and end with the same results.
# Answer: one session, two queries with the same plan, each on its own store. A gate in
#   foreachBatch lets exactly one of them move at a time. A whole turn is timed: from
#   the moment a query may run batch N until it stands at the gate with batch N+1 planned and
#   logged. So everything a batch costs is in it, and the order changes every round.
# Invariant: a ratio is printed only after both stores showed the same results.

from __future__ import annotations

import argparse
import contextlib
import queue
import statistics
import sys
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.cli._numbers import Allowed, check
from tailrace.errors import TailraceError
from tailrace.session import PROVIDER_CLASS, PROVIDER_CONF, jar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WARM_UP_ROUNDS = 3
SPARK_STATE = "org.apache.spark.sql.execution.streaming.state."
ROCKSDB = SPARK_STATE + "RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@dataclass(frozen=True)
class Store:
    """A state store as a query's settings choose it."""

    label: str
    setting: str
    confs: dict[str, str]


TAILRACE = Store("tailrace", "defaults", {PROVIDER_CONF: PROVIDER_CLASS})
RIVALS = {
    "rocksdb": Store(
        "RocksDB",
        "with changelog checkpointing",
        {PROVIDER_CONF: ROCKSDB, CHANGELOG: "true"},
    ),
    "rocksdb-snapshots": Store(
        "RocksDB", "Spark's defaults", {PROVIDER_CONF: ROCKSDB, CHANGELOG: "false"}
    ),
    "memory": Store(
        "HDFSBacked",
        "Spark's store on the heap",
        {PROVIDER_CONF: SPARK_STATE + "HDFSBackedStateStoreProvider"},
    ),
}


class DemoError(TailraceError):
    """A query of the demo failed, or the stores disagree."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--seconds", type=int, default=40, help="measure for this long (default: 40)"
    )
    length.add_argument("--batches", type=int, help="measure this many batches per store")
    parser.add_argument(
        "--rows", type=int, default=100_000, help="bids per batch (default: 100000)"
    )
    parser.add_argument("--keys", type=int, default=1_000_000, help="auctions (default: 1000000)")
    parser.add_argument(
        "--against",
        choices=list(RIVALS),
        default="rocksdb",
        help="Spark's RocksDB store with changelog checkpointing (default) or with a snapshot "
        "per batch, or its in-memory store",
    )


ALLOWED = {"seconds": Allowed(), "batches": Allowed(), "rows": Allowed(), "keys": Allowed()}


def run(arguments: argparse.Namespace) -> int:
    from tailrace.cli._local import local_session

    check(arguments, ALLOWED)

    screen = Screen()
    stores = [TAILRACE, RIVALS[arguments.against]]
    print(
        f"Count of bids and highest bid per auction: {arguments.keys:,} auctions, "
        f"{arguments.rows:,} bids a batch.\n"
        f"{stores[0].label} and {stores[1].label} ({stores[1].setting}) take turns, batch by "
        "batch, in one session on 2 cores.",
        flush=True,
    )
    screen.show("preparing the engine")
    jar()
    screen.show("starting Spark")
    with local_session("tailrace demo") as session:
        runners = [
            Runner(session.spark, store, session.directory / f"checkpoint-{number}", arguments)
            for number, store in enumerate(stores)
        ]
        try:
            batches = _measure(runners, arguments, screen)
            screen.show("comparing the results of both stores")
            results = [runner.digest() for runner in runners]
        finally:
            screen.clear()
            for runner in runners:
                runner.close()
    if len(set(results)) != 1:
        raise DemoError(
            "The two stores hold different state.",
            "; ".join(
                f"{r.store.label}: {result}" for r, result in zip(runners, results, strict=True)
            ),
            "This is a defect: please report it with the options of this command.",
        )
    print(report(runners, batches, results[0]))
    return 0


def _measure(runners: list[Runner], arguments: argparse.Namespace, screen: Screen) -> int:
    """Loads, warms up, then takes turns until enough is measured; returns how many rounds."""
    for runner in runners:
        screen.show(f"{runner.store.label}: opening {arguments.keys:,} auctions")
        runner.turn()
    for number in range(WARM_UP_ROUNDS):
        screen.show(f"warming up, round {number + 1} of {WARM_UP_ROUNDS}")
        for runner in runners:
            runner.turn()
    started = time.monotonic()
    number = 0
    while True:
        elapsed = time.monotonic() - started
        share = number / arguments.batches if arguments.batches else elapsed / arguments.seconds
        if share >= 1 and number > 0:
            return number
        # The first store changes, so that garbage of one does not always hit the other.
        for runner in runners if number % 2 == 0 else reversed(runners):
            runner.times.append(runner.turn())
        number += 1
        latest = "   ".join(f"{r.store.label} {r.times[-1]:.2f} s" for r in runners)
        screen.show(f"[{_bar(min(share, 1), 20):<20}] batch {number}   {latest}", frequent=True)


class Order(Enum):
    """An order to a query at the gate: what to do with its batch."""

    WRITE = "write"
    DIGEST = "digest"
    END = "end"


@dataclass(frozen=True)
class Digest:
    """A store's result for the auctions of one batch, over all bids so far."""

    state_rows: int
    auctions: int
    bids: int
    checksum: int


class EndOfDemo(Exception):  # noqa: N818 - it is how a waiting query ends, not an error
    """Ends the query that waits at the gate."""


@dataclass
class Runner:
    """One query on one store, moved batch by batch from outside."""

    spark: SparkSession
    store: Store
    checkpoint: Path
    arguments: argparse.Namespace
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._arrivals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._answer: tuple[int, int, int] | None = None
        session = self.spark.newSession()  # the store is a setting of the session
        for key, value in self.store.confs.items():
            session.conf.set(key, value)
        self._query: StreamingQuery = (
            highest_bids(session, self.arguments.rows, self.arguments.keys)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self._gate)
            .start()
        )
        self._wait()

    def turn(self, order: Order = Order.WRITE) -> float:
        """Lets one batch through, and says how long until the next one stood at the gate."""
        started = time.perf_counter()
        self._orders.put(order)
        self._wait()
        return time.perf_counter() - started

    def digest(self) -> Digest:
        """Runs one more batch and condenses its results instead of dropping them."""
        self.turn(Order.DIGEST)
        assert self._answer is not None
        auctions, bids, checksum = self._answer
        progress: Any = self._query.lastProgress
        state_rows = sum(operator["numRowsTotal"] for operator in progress["stateOperators"])
        return Digest(state_rows, auctions, bids, checksum)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it ends by EndOfDemo, or had failed before
            self.spark.sparkContext.setLogLevel("OFF")
            self._orders.put(Order.END)
            self._query.awaitTermination(10)

    def _gate(self, batch: DataFrame, batch_id: int) -> None:
        self._arrivals.put(batch_id)
        order = self._orders.get()
        if order is Order.END:
            raise EndOfDemo
        if order is Order.DIGEST:
            self._answer = _condense(batch)
        else:
            batch.write.format("noop").mode("append").save()

    def _wait(self) -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                self._arrivals.get(timeout=0.5)
                return
            if not self._query.isActive:
                from tailrace.cli._local import readable

                raise DemoError(
                    f"The query on {self.store.label} failed.",
                    readable(str(self._query.exception())),
                    "Run `tailrace doctor`; if it finds nothing, please report this.",
                )


def highest_bids(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Count of bids and highest bid per auction, as in NEXMark; bids depend on their number only.

    The first batch opens every auction, so that the state has its full size from then on.
    """
    from pyspark.sql import functions as f

    events = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 2)
        .load()
    )
    number = f.col("value")
    per_row = -(-keys // rows)
    opened = f.sequence(number * per_row, f.least(number * per_row + per_row, f.lit(keys)) - 1)
    opening = f.when(number * per_row < keys, opened).otherwise(f.array().cast("array<bigint>"))
    auction = f.pmod(f.xxhash64(number), f.lit(keys))
    bids = events.select(
        f.explode(f.when(number < rows, opening).otherwise(f.array(auction))).alias("auction"),
        f.pmod(f.xxhash64(number, f.lit("price")), f.lit(1_000_000)).alias("price"),
    )
    return bids.groupBy("auction").agg(
        f.count(f.lit(1)).alias("bids"), f.max("price").alias("highest")
    )


def _condense(batch: DataFrame) -> tuple[int, int, int]:
    from pyspark.sql import functions as f

    row = batch.agg(
        f.count(f.lit(1)).alias("auctions"),
        f.sum("bids").alias("bids"),
        f.bit_xor(f.xxhash64("auction", "bids", "highest")).alias("checksum"),
    ).first()
    assert row is not None
    return row["auctions"], row["bids"], row["checksum"]


def report(runners: list[Runner], batches: int, result: Digest) -> str:
    """The comparison, to be understood at a glance."""
    summaries = [(runner.store.label, *summarize(runner.times)) for runner in runners]
    slowest = max(median for _, median, _ in summaries)
    width = max(len(label) for label, _, _ in summaries)
    lines = [
        "",
        f"{'':<{width}}   median      p99   time of a batch, {batches} batches each",
        *(
            f"{label:<{width}}  {median:5.2f} s  {p99:5.2f} s   {_bar(median / slowest, 40)}"
            for label, median, p99 in summaries
        ),
        "",
        compare(summaries[0][:2], summaries[1][:2]),
        f"Both hold {result.state_rows:,} rows of state, and the same results: counts and highest "
        f"bids of\n{result.auctions:,} auctions were compared.",
    ]
    return "\n".join(lines)


def summarize(times: list[float]) -> tuple[float, float]:
    """Median and 99th percentile (the nearest rank, so it is a time that occurred)."""
    ordered = sorted(times)
    return statistics.median(ordered), ordered[-(-len(ordered) * 99 // 100) - 1]


def compare(one: tuple[str, float], other: tuple[str, float]) -> str:
    """Which is faster, and by how much; no winner within 5 %."""
    (fast, fast_time), (slow, slow_time) = sorted((one, other), key=lambda pair: pair[1])
    if slow_time < 1.05 * fast_time:
        return f"{fast} and {slow} take the same time within 5 %."
    return f"{fast} is {slow_time / fast_time:.1f} times as fast as {slow}."


class Screen:
    """One line that changes on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._frequent = 0

    def show(self, text: str, frequent: bool = False) -> None:
        """`frequent`: this is shown often, so a terminal-less log gets every tenth only."""
        if self._terminal:
            print(f"\r\x1b[K  {text}", end="", flush=True)
            return
        if not frequent or self._frequent % 10 == 0:
            print(f"  {text}", flush=True)
        self._frequent += frequent

    def clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", flush=True)


def _bar(share: float, width: int) -> str:
    solid = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    return solid * max(1, round(share * width))
