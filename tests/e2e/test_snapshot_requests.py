"""Spark asks a store that lags behind with snapshots for one; it must not ask for one every batch.

After 50 versions without a snapshot Spark's coordinator wants one with the next commit, and with
every commit after it until it hears of one. The store writes it beside the batches and reports it.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

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
