"""The program of test_leaving.py: leaves a session while the last batch's upload is still slow.

Arguments: a folder, and how to leave. "properly": by spark.stop() right after a batch, by
spark.stop() in the middle of one, and at last by just ending. "interrupted": waits for Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from support.counting import Counting, eventually, failpoints, happens
from support.processes import say, session

SLOW_UPLOAD = "upload.before@2=delay:2000"


def run_two_batches(spark: SparkSession, counting: Counting) -> StreamingQuery:
    """The second is applied and, for two seconds, not durable."""
    failpoints(spark).arm(SLOW_UPLOAD)
    query = counting.start(spark)
    for text in ("oak elm", "oak ash fir"):
        counting.run_batch(query, text)
    return query


def start_unique(spark: SparkSession, counting: Counting) -> StreamingQuery:
    """Every word once, into files."""
    words = spark.readStream.schema("word STRING").option("maxFilesPerTrigger", 1)
    return (
        words.json(counting.events.as_uri())
        .dropDuplicates(["word"])
        .writeStream.format("json")
        .option("checkpointLocation", counting.location)
        .start(counting.output.as_uri())
    )


def stop_at_the_sink(spark: SparkSession, counting: Counting) -> None:
    """All tasks of the second batch are done, and the sink on the driver is slow to take note."""
    failpoints(spark).arm("sink.before@2=delay:1500")
    query = start_unique(spark, counting)
    counting.await_published(counting.run_batch(query, "oak elm fir"))
    counting.add("oak ash")
    log = counting.output / "_spark_metadata"
    eventually(lambda: list(log.glob(".1.*")), "the sink to write its log")
    spark.stop()
    happens(lambda: 1 in counting.published, 3)


def leave_properly(folder: Path) -> None:
    spark = session()
    stopped = Counting(folder / "stopped")
    run_two_batches(spark, stopped)
    spark.stop()
    say("stopped", published=stopped.published)

    spark = session()
    middle = Counting(folder / "middle")
    stop_at_the_sink(spark, middle)
    durable = [number for number in middle.published if middle.packs(number + 1)]
    say("stopped in a batch", published=middle.published, durable=durable)

    spark = session()
    query = start_unique(spark, middle)
    query.processAllAvailable()
    query.stop()
    rows = spark.read.json(middle.output.as_uri()).collect()
    say("restarted", words=sorted(row["word"] for row in rows))

    run_two_batches(spark, Counting(folder / "ended"))
    say("ends")


def await_interrupt(folder: Path) -> None:
    query = run_two_batches(session(), Counting(folder / "interrupted"))
    say("waits")
    query.awaitTermination()


if __name__ == "__main__":
    if sys.argv[2] == "properly":
        leave_properly(Path(sys.argv[1]))
    else:
        await_interrupt(Path(sys.argv[1]))
