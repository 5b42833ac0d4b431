"""A query from files to files, that can be set back.

Problem: whether a rollback loses or doubles rows shows only in the output of a query whose source
and sink keep logs of their own.
Answer: `Rolling` runs such queries over a folder: one input file is one batch, the logs of source
and sink are compacted every three entries, the output is read as Spark reads it.
Invariant: any run over the same input has to show the `rows` of an undisturbed one.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tailrace

CONFS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
}
SCHEMA = "time TIMESTAMP, key STRING, value LONG"


def windowed(frames: dict[str, DataFrame]) -> DataFrame:
    rows = frames["left"].withWatermark("time", "5 seconds")
    return rows.groupBy(F.window("time", "10 seconds"), "key").agg(
        F.count("*").alias("rows"), F.sum("value").alias("sum")
    )


def joined(frames: dict[str, DataFrame]) -> DataFrame:
    left = frames["left"].withWatermark("time", "10 seconds").alias("l")
    right = frames["right"].withWatermark("time", "10 seconds").alias("r")
    near = F.expr("l.key = r.key AND l.time BETWEEN r.time - INTERVAL 10 SECONDS AND r.time")
    return left.join(right, near).select(
        F.col("l.time").alias("from"), F.col("r.time").alias("to"), "l.key", "l.value"
    )


class Rolling:
    """A query of this module, its input, its checkpoint and its output."""

    def __init__(
        self,
        folder: Path,
        build: Callable[[dict[str, DataFrame]], DataFrame],
        *,
        sources: tuple[str, ...] = ("left",),
        events: Path | None = None,
        confs: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.build = build
        self.sources = sources
        self.events = events or folder / "events"
        self.checkpoint = folder / "checkpoint"
        self.output = folder / "output"
        self.confs = {**CONFS, **(confs or {})}
        self.steps = 0
        for source in sources:
            (self.events / source).mkdir(parents=True, exist_ok=True)

    def add(self, steps: int) -> None:
        """More input: a file per source and step, ten seconds each."""
        for step in range(self.steps, self.steps + steps):
            for number, source in enumerate(self.sources):
                rows = [
                    {
                        "time": f"2024-01-01T00:{(step * 10 + at) // 60:02d}:"
                        f"{(step * 10 + at) % 60:02d}Z",
                        "key": "abc"[(at + step + number) % 3],
                        "value": step * 100 + at,
                    }
                    for at in range(10)
                ]
                text = "".join(json.dumps(row) + "\n" for row in rows)
                path = self.events / source / f"{step:04d}.json"
                path.write_text(text)
                # Spark reads files in the order of their times.
                os.utime(path, (1_700_000_000 + step, 1_700_000_000 + step))
        self.steps += steps

    def undisturbed(self) -> Rolling:
        """The same query over the same input, on a checkpoint of its own."""
        other = Rolling(
            self.folder / "undisturbed",
            self.build,
            sources=self.sources,
            events=self.events,
            confs=self.confs,
        )
        other.steps = self.steps
        return other

    def run(self, spark: SparkSession) -> None:
        """Runs over all input that is there, a file of each source per batch.

        When it returns, the last batch is published.
        """
        session = spark.newSession()
        for key, value in self.confs.items():
            session.conf.set(key, value)
        frames = {
            source: session.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json((self.events / source).as_uri())
            for source in self.sources
        }
        query = (
            self.build(frames)
            .writeStream.outputMode("append")
            .option("checkpointLocation", self.checkpoint.as_uri())
            .trigger(availableNow=True)
            .format("parquet")
            .start(self.output.as_uri())
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        tailrace.drain(spark, query=query)

    def rows(self, spark: SparkSession) -> Counter[Any]:
        found = spark.read.parquet(self.output.as_uri()).collect()
        return Counter(str(row) for row in found)

    def batches(self) -> list[int]:
        return sorted(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))

    def state_files(self, version: int) -> list[Path]:
        state = self.checkpoint / "state"
        packs = state.glob(f"tailrace/{version}-*.pack.tr")
        return sorted([*packs, *state.glob(f"[0-9]*/**/{version}[._]*.tr")])
