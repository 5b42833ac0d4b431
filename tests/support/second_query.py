"""The rival of test_second_query.py: a process that runs the same query on the same checkpoint.

Arguments: the input folder, the checkpoint, the folder for results. It says "ready" when its query
waits for input, and how the query ended: by an error, or because a file "stop" appeared beside the
results.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import tailrace


def start_counting(
    spark: SparkSession, events: Path, checkpoint: Path, results: Path
) -> StreamingQuery:
    """Counts words; each batch's output replaces the file that is named after the batch."""
    counts = (
        spark.readStream.schema("word string")
        .option("maxFilesPerTrigger", 1)
        .json(str(events))
        .groupBy("word")
        .agg(F.count("*").alias("count"))
    )

    def keep(batch: DataFrame, batch_id: int) -> None:
        rows = sorted(f"{row['word']} {row['count']}" for row in batch.collect())
        (results / f"{batch_id}.txt").write_text("\n".join(rows))

    return (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(keep)
        .start()
    )


def main() -> None:
    events, checkpoint, results = (Path(argument) for argument in sys.argv[1:4])
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "OFF")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    )
    spark = tailrace.configure(builder).getOrCreate()
    query = start_counting(spark, events, checkpoint, results)
    while query.isActive and not query.status["message"].startswith("Waiting"):
        time.sleep(0.1)
    print("ready", flush=True)
    while query.isActive and not (results / "stop").exists():
        time.sleep(0.1)
    error = query.exception()
    print("failed: " + str(error) if error else "unharmed", flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
