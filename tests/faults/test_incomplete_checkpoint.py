"""A checkpoint of which entries of Spark's logs are missing: right results, or a plain refusal.

Problem: files get lost, in a partial copy, a restore or a clean-up. A query that goes on from the
rest may show rows twice or never.
Answer: `offsets/N` is visible only when every batch before N is published (docs/rfcs/0004). Lost
entries of `commits` then cost one more run of the newest batch and nothing else; lost entries of
`offsets` show in files that are newer than they allow, and the query is refused.
Invariant: a refused query changes no file.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.counting import Counting, eventually, new_session

TEXTS = ["oak elm", "elm fir", "oak fir yew", "ash", "elm ash box", "oak"]
AFTERWARDS = ["oak pine", "elm box holly"]


def ran(spark: SparkSession, folder: Path) -> Counting:
    """Six batches, all published."""
    counting = Counting(folder)
    for text in TEXTS:
        counting.add(text)
    assert counting.problems_after(spark) == []
    counting.await_published(len(TEXTS) - 1)
    assert counting.logged("offsets") == counting.published
    return counting


def remove(counting: Counting, log: str, *numbers: int) -> None:
    for number in numbers:
        (counting.checkpoint / log / str(number)).unlink()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "lost",
    [(0, 1, 2, 3, 4, 5), (3, 4, 5), (5,), (1, 2)],
    ids=["all", "the newest three", "the newest", "some in between"],
)
def test_lost_commits_change_nothing(
    spark: SparkSession, tmp_path: Path, lost: tuple[int, ...]
) -> None:
    """As with Spark's own stores: the newest batch runs again, and no other."""
    counting = ran(spark, tmp_path)
    remove(counting, "commits", *lost)
    counting.calls.clear()
    for text in AFTERWARDS:
        counting.add(text)
    assert counting.problems_after(spark) == []
    again = [5] if 5 in lost else []
    assert counting.calls == [*again, 6, 7]
    assert counting.state(spark) == counting.expected


def unique(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates(["word"])


def run_to_files(spark: SparkSession, counting: Counting) -> Counter[str]:
    """Every word once, into files, whose sink does not run a batch that it has."""
    frame = spark.readStream.schema("word STRING").option("maxFilesPerTrigger", 1)
    query = (
        unique(frame.json(counting.events.as_uri()))
        .writeStream.format("parquet")
        .option("checkpointLocation", counting.location)
        .trigger(availableNow=True)
        .start(counting.output.as_uri())
    )
    query.awaitTermination(90)
    query.stop()
    rows = spark.read.schema("word STRING").parquet(counting.output.as_uri()).collect()
    return Counter(row["word"] for row in rows)


@pytest.mark.parametrize("lost", [6, 3, 1])
def test_lost_commits_over_a_file_sink(spark: SparkSession, tmp_path: Path, lost: int) -> None:
    counting = Counting(tmp_path)
    for text in TEXTS:
        counting.add(text)
    run_to_files(spark, counting)
    remove(counting, "commits", *range(6 - lost, 6))
    for text in AFTERWARDS:
        counting.add(text)
    assert run_to_files(spark, counting) == Counter(set(counting.expected))


def assert_refused(spark: SparkSession, counting: Counting, *said: str) -> None:
    before = contents(counting.checkpoint)
    counting.calls.clear()
    counting.add("oak")
    query = counting.start(spark, trigger={"availableNow": True})
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(90)
    text = str(caught.value)
    for words in (*said, "is not complete", "Cause:", "Remedy:", "Nothing was deleted or changed"):
        assert words in text, f"{words!r} is not in {text}"
    assert counting.calls == []
    assert contents(counting.checkpoint) == before


@pytest.mark.parametrize("lost", [1, 3])
def test_lost_offsets_are_refused(spark: SparkSession, tmp_path: Path, lost: int) -> None:
    counting = ran(spark, tmp_path)
    remove(counting, "offsets", *range(6 - lost, 6))
    assert_refused(
        spark, counting, "The newest entries of offsets are missing", "commits/5 is there"
    )


@pytest.mark.parametrize("lost", [1, 3, 6])
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, "state/tailrace has state of batch 5"),
        ({"commit": "sync"}, "state/0/0 has state of batch 5"),
    ],
    ids=["async", "sync"],
)
def test_offsets_and_commits_that_are_older_than_the_state_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], place: str, lost: int
) -> None:
    """A copy that took the logs first, or a restore of the logs alone."""
    session = new_session(spark, **options)
    counting = ran(session, tmp_path)
    for log in ("offsets", "commits"):
        remove(counting, log, *range(6 - lost, 6))
    assert_refused(session, counting, place)


def test_logs_that_are_older_than_a_snapshot_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The packs were lost with the logs; the snapshot is of a store with a name, as joins have."""
    counting = ran(spark, tmp_path)
    for log in ("offsets", "commits"):
        remove(counting, log, 5)
    for pack in counting.packs(6):
        pack.unlink()
    folder = counting.checkpoint / "state" / "0" / "0" / "left"
    folder.mkdir()
    (folder / "6.snapshot.tr").write_bytes(b"of a lost batch")
    assert_refused(spark, counting, "state/0/0/left has state of batch 5")


def test_lost_commits_that_name_their_state_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With format 2 an entry of commits names the run of each store that the next batch reads."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    counting = ran(session, tmp_path)
    kept = tmp_path / "4"
    shutil.copy(counting.checkpoint / "commits" / "4", kept)
    remove(counting, "commits", 3, 4, 5)
    assert_refused(session, counting, "The newest entries of commits are missing")
    remove(counting, "commits", 0, 1, 2)
    assert_refused(session, counting, "The newest entries of commits are missing")
    shutil.copy(kept, counting.checkpoint / "commits" / "4")
    assert counting.problems_after(session) == []


def test_a_query_of_another_kind_is_not_checked(spark: SparkSession, tmp_path: Path) -> None:
    """Asynchronous progress tracking of Spark's leaves gaps in both logs."""
    checkpoint = tmp_path / "checkpoint"

    def run(n: int) -> None:
        query = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 10)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint.as_uri())
            .option("asyncProgressTrackingEnabled", "true")
            .option("asyncProgressTrackingCheckpointIntervalMs", "400")
            .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
            .start()
        )
        try:
            eventually(
                lambda: query.exception() or (query.lastProgress or {"batchId": 0})["batchId"] >= n,
                f"batch {n}",
            )
            assert query.exception() is None
        finally:
            query.stop()

    run(30)
    offsets = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    assert offsets != list(range(offsets[0], offsets[-1] + 1)), "there is no gap to be seen"
    run(offsets[-1] + 30)


def test_a_gap_before_the_newest_offsets_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    counting = ran(spark, tmp_path)
    remove(counting, "offsets", 4)
    assert_refused(spark, counting, "offsets/4 is missing")


def test_what_was_lost_can_be_restored(spark: SparkSession, tmp_path: Path) -> None:
    """The remedy that the refusal gives."""
    counting = ran(spark, tmp_path)
    kept = tmp_path / "5"
    shutil.copy(counting.checkpoint / "offsets" / "5", kept)
    remove(counting, "offsets", 5)
    assert_refused(spark, counting)
    shutil.copy(kept, counting.checkpoint / "offsets" / "5")
    assert counting.problems_after(spark) == []


# ---- temporary files


def left_behind(counting: Counting, log: str, number: int) -> Path:
    """The file of a process that was killed between writing an entry and renaming it."""
    folder = counting.checkpoint / log
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{number}.{uuid.uuid4()}.tmp"
    path.write_text("v1\n")
    return path


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_temporary_file_is_not_in_the_way_of_the_first_batch(
    spark: SparkSession, tmp_path: Path, log: str
) -> None:
    counting = Counting(tmp_path)
    left_behind(counting, log, 0)
    counting.add("oak elm")
    assert counting.problems_after(spark) == []
    counting.await_published(0)


def test_a_file_of_another_kind_is_still_refused_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    counting = Counting(tmp_path)
    left_behind(counting, "offsets", 0).rename(counting.checkpoint / "offsets" / "notes.txt")
    counting.add("oak elm")
    assert "should be empty on batch 0" in " ".join(counting.problems_after(spark))
