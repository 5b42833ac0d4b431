"""Supervised queries: after failures the results are right, and lasting errors are reported.

Problem: whether a restart loses or repeats a row, and which class an error has when it has come
through Spark, py4j and a Python function, shows only with real queries.
Answer: a count per word over files, one per batch, whose tasks or sink fail when a test says so.
Invariant: a sink that keeps one result per batch id ends with the counts of all words, each once.
"""

from __future__ import annotations

import _thread
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tailrace
from tailrace import _jvm
from tailrace.errors import SupervisionError
from tailrace.options import CONF_PREFIX
from tailrace.supervise import Backoff, Failure, Verdict

SOON = Backoff(first=0.01, cap=0.01)
BATCHES = 3
PATIENCE_SECONDS = 300
Sink = Callable[[DataFrame, int], None]


class WordCount:
    """A query over `BATCHES` files of words, and its sink's counts of each batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.events = directory / "events"
        self.checkpoint = directory / "checkpoint"
        self.kept: dict[int, dict[str, int]] = {}
        self.events.mkdir()
        self.words: list[str] = []
        for number in range(BATCHES):
            self.add_file(number)

    def add_file(self, number: int) -> None:
        words = ["oak", "elm", "ash"] * (number + 1) + [f"only{number}"]
        hidden = self.events / f".{number}.json"
        hidden.write_text("\n".join(json.dumps({"word": word}) for word in words))
        os.utime(hidden, (number, number))  # Spark reads the oldest first
        hidden.rename(self.events / f"{number}.json")
        self.words += words

    def keep(self, batch: DataFrame, batch_id: int) -> None:
        self.kept[batch_id] = {row["word"]: row["count"] for row in batch.collect()}

    def totals(self) -> Counter[str]:
        latest: Counter[str] = Counter()
        for batch_id in sorted(self.kept):
            latest |= Counter(self.kept[batch_id])  # counts only grow
        return latest

    def start(
        self,
        sink: Sink | str,
        *,
        word: Column | None = None,
        total: Column | None = None,
        available_now: bool = True,
    ) -> Any:
        counts = (
            self.spark.readStream.schema("word string")
            .option("maxFilesPerTrigger", 1)
            .json(self.events.as_uri())
            .select((F.col("word") if word is None else word).alias("word"))
            .groupBy("word")
            .agg((F.count("*") if total is None else total).alias("count"))
        )
        writer = counts.writeStream.outputMode("update").option(
            "checkpointLocation", self.checkpoint.as_uri()
        )
        writer = writer.format(sink) if isinstance(sink, str) else writer.foreachBatch(sink)
        return (writer.trigger(availableNow=True) if available_now else writer).start()


@pytest.fixture
def words(spark: SparkSession, tmp_path: Path) -> WordCount:
    return WordCount(spark, tmp_path)


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> WordCount:
    """A query that has ended after its last file; since then another one has come."""
    words = WordCount(spark, tmp_path_factory.mktemp("finished"))
    assert tailrace.supervise(lambda: words.start(words.keep)).last_batch == BATCHES - 1
    assert words.totals() == Counter(words.words)
    words.add_file(BATCHES)
    return words


@pytest.fixture
def continued(words: WordCount, finished: WordCount) -> WordCount:
    """The same query on a copy of its checkpoint, of which no executor has state in memory."""
    shutil.copytree(finished.checkpoint, words.checkpoint)
    words.events = finished.events
    return words


def given_up(start: Callable[[], Any], **options: Any) -> tuple[SupervisionError, list[Failure]]:
    reports: list[Failure] = []
    with pytest.raises(SupervisionError) as caught:
        tailrace.supervise(start, backoff=SOON, on_failure=reports.append, **options)
    return caught.value, reports


def test_after_failures_the_results_are_there_once(words: WordCount) -> None:
    """A task that fails in batch 1; a sink that fails in batch 2 after it has kept its results."""
    failing = F.when(F.col("word") == "only1", F.raise_error(F.lit("no such tree")))
    expressions = [failing.otherwise(F.col("word"))]
    lost = ["the connection was lost, 2", "the connection was lost, 1"]

    def start() -> Any:
        return words.start(sink, word=expressions.pop() if expressions else None)

    def sink(batch: DataFrame, batch_id: int) -> None:
        words.keep(batch, batch_id)
        if batch_id == 2 and lost:
            raise RuntimeError(lost.pop())

    reports: list[Failure] = []
    outcome = tailrace.supervise(start, backoff=SOON, on_failure=reports.append)
    assert words.totals() == Counter(words.words)
    assert (outcome.restarts, outcome.last_batch) == (3, 2)
    assert list(outcome.failures) == reports
    assert "no such tree" in reports[0].cause
    assert [report.last_batch for report in reports] == [0, 1, 1]
    assert [report.cause for report in reports[1:]] == [
        "RuntimeError: the connection was lost, 1",
        "RuntimeError: the connection was lost, 2",
    ]
    assert all("[STREAM_FAILED]" in report.error for report in reports)


def test_an_error_that_comes_back_is_given_up(words: WordCount) -> None:
    def sink(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            raise KeyError("price")
        words.keep(batch, batch_id)

    error, reports = given_up(lambda: words.start(sink))
    assert "3 times in the same way" in error.problem
    assert "KeyError: 'price'" in error.cause
    assert "The last batch that was applied is 0." in error.cause
    assert [report.attempt for report in reports] == [1, 2, 3]
    # Nothing is lost: the next start goes on with the batch that failed.
    assert tailrace.supervise(lambda: words.start(words.keep)).failures == ()
    assert words.totals() == Counter(words.words)


@pytest.mark.parametrize("sink", ["noop", "foreachBatch"])
def test_a_damaged_checkpoint_is_given_up_at_once(continued: WordCount, sink: str) -> None:
    """The error comes as an exception of the JVM, or as text through the function of the sink."""
    for path in continued.checkpoint.rglob("*.tr"):
        path.write_bytes(path.read_bytes()[:-5])
    error, reports = given_up(
        lambda: continued.start(continued.keep if sink == "foreachBatch" else sink)
    )
    assert [report.verdict for report in reports] == [Verdict.WILL_REPEAT]
    assert "tailrace.errors.CorruptFile: The state file" in error.cause
    assert ".tr is damaged." in error.cause
    assert error.remedy.startswith("Restore the file from a copy")


def test_a_query_that_has_changed_is_given_up_at_once(continued: WordCount) -> None:
    changed = F.max("word")
    error, reports = given_up(lambda: continued.start(continued.keep, total=changed))
    assert [report.verdict for report in reports] == [Verdict.WILL_REPEAT]
    assert "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in error.cause
    assert "new checkpoint location" in error.remedy


def test_a_query_that_spark_refuses_is_given_up_at_once(words: WordCount) -> None:
    error, reports = given_up(lambda: words.start(words.keep, word=F.col("wrod")))
    assert [report.attempt for report in reports] == [1]
    assert "UNRESOLVED_COLUMN" in error.cause


@pytest.mark.parametrize(
    ("commit", "told"), [("sync", "CONCURRENT_STREAM_LOG_UPDATE"), ("async", "Concurrent update")]
)
def test_another_query_on_the_checkpoint_is_given_up_at_once(
    words: WordCount, commit: str, told: str
) -> None:
    """The entry of the offset log that this query is about to write is there already."""
    words.spark = words.spark.newSession()
    words.spark.conf.set(CONF_PREFIX + "commit", commit)

    def sink(batch: DataFrame, batch_id: int) -> None:
        words.keep(batch, batch_id)
        offsets = words.checkpoint / "offsets"
        if batch_id == 0:
            shutil.copy(offsets / "0", offsets / "1")

    error, reports = given_up(lambda: words.start(sink))
    assert [report.verdict for report in reports] == [Verdict.WILL_REPEAT]
    assert told in error.cause


@pytest.fixture
def failpoints(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Arms points of the commit protocol (engine/src/tailrace/faults), and disarms them."""
    failpoint = _jvm.engine(spark).classes.spark.EngineRuntime.current().failpoints()
    yield failpoint.arm
    failpoint.arm("")


def test_the_end_is_when_the_last_batch_is_published(
    words: WordCount, failpoints: Callable[[str], None]
) -> None:
    failpoints(f"publish.before@{BATCHES}=delay:1000")
    tailrace.supervise(lambda: words.start(words.keep))
    assert (words.checkpoint / "commits" / str(BATCHES - 1)).exists()


def test_a_last_batch_that_is_not_published_is_a_failure(
    words: WordCount, tmp_path: Path, failpoints: Callable[[str], None]
) -> None:
    """An error that shows after the query's end restarts it, but not an error of another query."""
    words.checkpoint = tmp_path / "abandoned"
    failpoints(f"publish.before@{BATCHES}=fail")
    words.start(words.keep).awaitTermination()

    words.checkpoint = tmp_path / "supervised"
    failpoints(f"publish.before@{BATCHES}=fail")
    outcome = tailrace.supervise(lambda: words.start(words.keep), backoff=SOON)
    assert words.totals() == Counter(words.words)
    assert (outcome.restarts, outcome.last_batch) == (1, BATCHES - 1)
    # It shows when the query writes again, or at its end if there is nothing more to write.
    told = ("tailrace.errors.CommitError: ", "tailrace.ledger.CommitFailed: ")
    assert outcome.failures[0].cause.startswith(told)
    assert (words.checkpoint / "commits" / str(BATCHES - 1)).exists()


class Running:
    """A query without an end, and a thread that calls `then` with it after its last file."""

    def __init__(self, words: WordCount, then: Callable[[Any], object]) -> None:
        self.words = words
        self.query: Any = None
        self.all_read = threading.Event()
        self.thread = threading.Thread(target=self._do, args=(then,))
        self.thread.start()

    def _do(self, then: Callable[[Any], object]) -> None:
        assert self.all_read.wait(PATIENCE_SECONDS)
        then(self.query)

    def start(self) -> Any:
        def sink(batch: DataFrame, batch_id: int) -> None:
            self.words.keep(batch, batch_id)
            if batch_id == BATCHES - 1:
                self.all_read.set()

        self.query = self.words.start(sink, available_now=False)
        return self.query


def test_a_query_stopped_from_another_thread_is_at_its_end(words: WordCount) -> None:
    running = Running(words, lambda query: query.stop())
    outcome = tailrace.supervise(running.start, backoff=SOON)
    running.thread.join()
    assert (outcome.restarts, outcome.failures) == (0, ())
    assert not running.query.isActive
    assert words.totals() == Counter(words.words)


def test_an_interrupt_stops_the_query_and_leaves_the_session_usable(words: WordCount) -> None:
    running = Running(words, lambda _: _thread.interrupt_main())
    with pytest.raises(KeyboardInterrupt):
        tailrace.supervise(running.start)
    running.thread.join()
    assert not running.query.isActive
    # A call into the JVM that was broken off would give its answer to these.
    assert [words.spark.range(number).count() for number in (3, 5)] == [3, 5]
