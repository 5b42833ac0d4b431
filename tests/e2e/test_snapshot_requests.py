"""Spark asks a store that lags behind with snapshots for one; it need not ask.

Problem: after 50 versions and 10 minutes without a snapshot Spark's coordinator warns, and wants
one with every commit until one is reported. `max_deltas` allows 100 changes files.
Answer: the store knows these limits (SnapshotLag), and writes a snapshot before they are reached;
the coordinator itself is asked, batch by batch, whether a store lags.
Invariant: no store ever lags, and few snapshots are written.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.processes import Program

BATCHES = 70


def test_a_query_of_many_batches_writes_few_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    numbers = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 20)
        .option("numPartitions", 1)
        .load()
    )
    query = (
        numbers.groupBy((F.col("value") % 7).alias("key"))
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    deadline = time.monotonic() + 300
    while not query.lastProgress or query.lastProgress["batchId"] < BATCHES:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, "the query makes no progress"
        time.sleep(0.1)
    query.stop()
    state = tmp_path / "checkpoint" / "state"
    folder = state / "0" / "0"
    assert len(list((state / "tailrace").glob("*.pack.tr"))) >= BATCHES
    snapshots = list(folder.glob("*.snapshot.tr"))
    assert 1 <= len(snapshots) <= 4, sorted(path.name for path in snapshots)
    assert min(int(path.name.split(".")[0].split("_")[0]) for path in snapshots) <= 40


def test_spark_does_not_miss_a_snapshot(tmp_path: Path) -> None:
    with Program("support.lagging", tmp_path) as program:
        seen = program.expect("saw")
    assert seen["right"]
    assert seen["lagging"] == []
    snapshots = list((tmp_path / "checkpoint" / "state" / "0" / "0").glob("*.snapshot.tr"))
    assert 2 <= len(snapshots) <= 6, "one for about 16 of the 50 versions"


def test_both_limits_count(spark: SparkSession) -> None:
    """50 versions and 10 minutes, four fifths of which are waited for."""
    minute = 60_000
    now = 1_700_000_000_000
    lag = spark._jvm.tailrace.commit.SnapshotLag(50, 10 * minute, 0.8)
    assert not lag.isNear(39, now)
    assert lag.isNear(40, now), "the coordinator knows of no snapshot in this run"
    lag.reported(40, now)
    assert not lag.isNear(90, now + 7 * minute), "many versions in a short time"
    assert not lag.isNear(79, now + 60 * minute), "a long time, but few versions"
    assert lag.isNear(80, now + 8 * minute)
    lag.reported(30, now + 8 * minute)
    assert lag.isNear(80, now + 8 * minute), "an older snapshot changes nothing"
