"""Asynchronous commit as a user of a session sees it, without any fault.

Problem: state is written while the next batch runs; nothing that a program does between two batches
may see, lose or repeat a batch that is not published yet.
Answer: a small query, batch by batch, whose uploads are held up where it matters whether the
program waits: files per batch, stop and restart, readers, triggers, sinks, sources, neighbours.
Invariant: after each test the sink has each batch once, and the counts are right.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.counting import (
    PATIENCE_SECONDS,
    Counting,
    counted,
    eventually,
    failpoint,
    happens,
    new_session,
)
from support.faults import PACK, FileFaults
from support.stores import ROCKSDB_CLASS

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


def metrics(query: Any) -> list[dict[str, int]]:
    """The store's metrics of every batch."""
    return [
        operator["customMetrics"]
        for report in query.recentProgress
        for operator in report["stateOperators"]
    ]


# ---- files


def test_files_per_batch_do_not_grow_with_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """One pack, two log entries of Spark's and one of its file source, for 2 stores as for 32."""
    added = {}
    for partitions in (2, 32):
        counting = Counting(tmp_path / str(partitions), partitions=partitions)
        query = counting.start(new_session(spark))
        try:
            counting.await_published(counting.run_batch(query, "oak elm ash fir yew"))
            before = counting.files_below()
            counting.await_published(counting.run_batch(query, "oak elm gum box bay"))
            added[partitions] = sorted(counting.files_below() - before)
            assert counting.state(spark) == counting.expected
        finally:
            query.stop()
        counting.assert_right()
        assert [len(counting.packs(version)) for version in (1, 2)] == [1, 1]
    assert len(added[2]) == len(added[32]) == 4, added
    assert {"commits/1", "offsets/1", "sources/0/1"} < set(added[32])


# ---- stop, restart, readers


def test_stop_right_after_a_batch_and_restart(faults: FileFaults, counting: Counting) -> None:
    """The restart waits for pending batches, and runs none again."""
    session = faults.session()
    query = counting.start(session)
    try:
        for text in ("oak elm", "oak ash", "elm elm fir"):
            with ThreadPoolExecutor(1) as pool:
                with faults.hold() as await_held:
                    number = counting.run_batch(query, text)
                    query.stop()
                    await_held()
                    restarted = pool.submit(counting.start, session)
                    assert not happens(lambda n=number: n in counting.published)
                query = restarted.result()
            query.processAllAvailable()
            assert number in counting.published
    finally:
        query.stop()
    counting.assert_right()
    assert counting.calls == [0, 1, 2], "a batch ran again though nothing was lost"


def test_state_is_read_after_the_last_batch(faults: FileFaults, counting: Counting) -> None:
    """The state data source waits for pending batches (rule 5)."""
    session = faults.session()
    query = counting.start(session)
    states: list[Counter[str]] = []
    reader = threading.Thread(target=lambda: states.append(counting.state(session)))
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        with faults.hold() as await_held:
            counting.add("oak ash fir")
            query.processAllAvailable()
            await_held()
            reader.start()
            assert not happens(lambda: states)
            assert counting.published == [0]
        reader.join()
        assert states == [counting.expected]
        assert counting.state(session, batchId=0) == Counter(oak=1, elm=1)
    finally:
        query.stop()


def test_stop_while_a_batch_waits_at_the_gate(faults: FileFaults, counting: Counting) -> None:
    session = faults.session()
    query = counting.start(session)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        with faults.hold() as await_held:
            counting.run_batch(query, "oak oak")
            await_held()
            counting.add("ash ash")
            counting.await_started(2)
            assert not happens(lambda: 2 in counting.shown), "output behind a closed gate"
            query.stop()
            assert counting.published == [0]
        assert query.exception() is None
        query = counting.start(session)
        counting.run_batch(query, "fir")
    finally:
        query.stop()
    counting.assert_right()
    assert counting.calls == [0, 1, 2, 3]


def test_batch_that_failed_holds_up_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """The parts of its tasks are dropped when the query ends, not when it is restarted."""

    def failing(batch: DataFrame, number: int) -> None:
        batch.collect()
        raise ValueError("the sink is closed")

    failed, other = Counting(tmp_path / "failed"), Counting(tmp_path / "other")
    failed.add("oak elm")
    query = failed.start(new_session(spark), sink=failing)
    eventually(lambda: query.exception(), "the query to fail")
    # A part of any size is too much as long as a part of another query is kept.
    query = other.start(new_session(spark, pendingLimit="1b"))
    try:
        for text in ("oak elm", "oak"):
            other.run_batch(query, text)
    finally:
        query.stop()
    other.assert_right()
    assert failed.problems_after(new_session(spark)) == []


def test_temporary_checkpoint_is_deleted(faults: FileFaults, counting: Counting) -> None:
    """Without checkpointLocation Spark deletes the checkpoint on stop: nothing may come after."""
    session = faults.session()
    frame = session.readStream.schema("word STRING").json(counting.events.as_uri())
    query = counted(frame).writeStream.outputMode("update").foreachBatch(counting.keep).start()
    root = Path(query._jsq.streamingQuery().resolvedCheckpointRoot().removeprefix("file:"))
    stopper = threading.Thread(target=query.stop)
    try:
        counting.run_batch(query, "oak elm")
        eventually((root / "commits" / "0").exists, "commits/0")
        with faults.hold() as await_held:
            counting.run_batch(query, "oak ash")
            await_held()
            stopper.start()
            assert not happens(lambda: not root.exists()), "deleted under a write"
        stopper.join()
    finally:
        query.stop()
    assert query.exception() is None
    assert not root.exists()
    assert not happens(root.exists)
    counting.assert_right()


# ---- triggers


def test_available_now_is_published_soon(spark: SparkSession, counting: Counting) -> None:
    for text in ("oak elm", "oak", "ash ash"):
        counting.add(text)
    assert counting.problems_after(new_session(spark)) == []
    counting.await_published(2)
    assert counting.calls == [0, 1, 2]


def test_once_returns_when_published(faults: FileFaults, counting: Counting) -> None:
    session = faults.session()
    for number, text in enumerate(("oak elm", "oak ash")):
        counting.add(text)
        with faults.hold() as await_held:
            query = counting.start(session, trigger={"once": True})
            await_held()
            assert not query.awaitTermination(1)
        assert query.awaitTermination(PATIENCE_SECONDS)
        assert counting.published == list(range(number + 1))
    counting.assert_right()


# ---- sinks and operators


def test_two_actions_in_foreach_batch(spark: SparkSession, counting: Counting) -> None:
    """The plan runs twice per batch; one pack holds the changes of the last run."""
    seen: list[int] = []

    def twice(batch: DataFrame, number: int) -> None:
        seen.append(batch.count())
        counting.keep(batch, number)

    query = counting.start(new_session(spark), sink=twice)
    try:
        for text in ("oak elm", "oak ash fir", "elm"):
            counting.run_batch(query, text)
        assert counting.state(spark) == counting.expected
    finally:
        query.stop()
    assert seen == [2, 3, 1]
    assert [len(counting.packs(version)) for version in (1, 2, 3)] == [1, 1, 1]
    counting.assert_right()


def test_several_operators_and_queries_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Two stateful operators in one query share its pack; queries do not mix."""

    def counted_once(frame: DataFrame) -> DataFrame:
        return counted(frame.dropDuplicates(["word"]))

    plain, unique = Counting(tmp_path / "plain"), Counting(tmp_path / "unique")
    queries = [
        plain.start(new_session(spark)),
        unique.start(new_session(spark), build=counted_once),
    ]
    try:
        for number, text in enumerate(("oak elm", "oak ash ash", "elm fir")):
            for counting in (plain, unique):
                counting.add(text)
            for counting, query in zip((plain, unique), queries, strict=True):
                counting.await_applied(query, number)
        for counting in (plain, unique):
            counting.await_published(2)
            assert [len(counting.packs(version)) for version in (1, 2, 3)] == [1, 1, 1]
        assert plain.state(spark) == plain.expected
    finally:
        for query in queries:
            query.stop()
    plain.assert_right()
    assert unique.totals == Counter(oak=1, elm=1, ash=1, fir=1)


@pytest.mark.parametrize("store", ["stateless", "rocksdb"])
def test_other_queries_are_as_in_plain_spark(
    spark: SparkSession, counting: Counting, store: str
) -> None:
    """commits/N is there when the batch ends; no pack, and no task that waits for one."""
    session = new_session(spark)
    if store == "rocksdb":
        session.conf.set(PROVIDER, ROCKSDB_CLASS)
    build = counted if store == "rocksdb" else (lambda frame: frame.withColumn("count", F.lit(1)))
    query = counting.start(session, build=build)
    try:
        with failpoint(spark, "local.before@1=kill,upload.before@1=kill"):
            for number, text in enumerate(("oak elm", "oak ash")):
                counting.run_batch(query, text)
                assert counting.published == list(range(number + 1))
    finally:
        query.stop()
    assert counting.packs() == []
    assert len(counting.shown) == 2
    if store == "rocksdb":
        counting.assert_right()


# ---- settings


def test_checkpoint_changes_between_sync_and_async(spark: SparkSession, counting: Counting) -> None:
    modes = ("sync", "async", "sync", "async", "async", "sync")
    for number, mode in enumerate(modes):
        query = counting.start(new_session(spark, commit=mode))
        try:
            counting.run_batch(query, f"oak {'elm fir ' * number}")
            if mode == "sync":
                assert number in counting.published
        finally:
            query.stop()
        counting.await_published(number)
        assert len(counting.packs(number + 1)) == (mode == "async")
        own = list((counting.checkpoint / "state").rglob(f"{number + 1}.changes.tr"))
        assert len(own) == (0 if mode == "async" else counting.partitions)
    counting.assert_right()
    assert counting.state(spark) == counting.expected
    assert counting.calls == list(range(len(modes)))


def test_checkpoint_ids(faults: FileFaults, counting: Counting) -> None:
    """Checkpoint format version 2: commits/N names the lineages that the pack holds."""
    session = faults.session()
    session.conf.set(FORMAT, "2")
    for text in ("oak elm", "oak ash"):
        query = counting.start(session)
        try:
            counting.await_published(counting.run_batch(query, text))
            with faults.hold() as await_held:
                counting.run_batch(query, "elm fir")
                await_held()
                counting.add("fir")
                number = counting.files - 1
                counting.await_started(number)
            counting.await_applied(query, number)
        finally:
            query.stop()
    counting.await_published(5)
    assert "stateUniqueIds" in (counting.checkpoint / "commits" / "5").read_text()
    counting.assert_right()
    assert counting.state(session) == counting.expected
    assert counting.calls == [0, 1, 2, 3, 4, 5]


def test_metrics(faults: FileFaults, counting: Counting) -> None:
    query = counting.start(faults.session())
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        with faults.hold() as await_held:
            counting.run_batch(query, "oak ash")
            await_held()
            counting.add("oak fir")
            counting.await_started(2)
            assert not happens(lambda: 2 in counting.shown, 1.0)
        counting.await_applied(query, 2)
        counting.await_published(2)
        faults.fail("create", PACK, times=2)
        counting.await_published(counting.run_batch(query, "oak"))
        counting.run_batch(query, "elm")
        found = metrics(query)
    finally:
        query.stop()
    names = {
        *("tailraceCommitSealTime", "tailraceCommitGateTime", "tailraceCommitApplyTime"),
        *("tailraceHiddenTime", "tailraceQueuedParts", "tailraceUnpublishedBatches"),
        *("tailraceRetries", "tailraceBytesWritten", "tailraceEntriesWritten"),
    }
    assert all(names <= set(batch) for batch in found)
    assert all(batch["tailraceFilesWritten"] == 0 for batch in found)
    assert found[2]["tailraceUnpublishedBatches"] == 1
    assert found[2]["tailraceCommitGateTime"] > 0
    assert found[2]["tailraceHiddenTime"] > 0
    assert [batch["tailraceRetries"] for batch in found] == [0, 0, 0, 0, 2]
    counting.assert_right()


def test_gate_at_the_first_read(faults: FileFaults, counting: Counting) -> None:
    """gate="read": tasks that push rows out by themselves show none before the gate opens."""
    pushed = counting.folder / "pushed"
    pushed.mkdir()

    def pushing(batch: DataFrame, number: int) -> None:
        folder = str(pushed)

        def push(rows: Any) -> None:
            for row in rows:
                Path(folder, f"{number}-{row['word']}").touch()

        batch.foreachPartition(push)
        counting.keep(batch, number)

    query = counting.start(faults.session(gate="read"), sink=pushing)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        with faults.hold() as await_held:
            counting.run_batch(query, "oak ash")
            await_held()
            counting.add("oak fir")
            counting.await_started(2)
            assert not happens(lambda: list(pushed.glob("2-*")), 1.5)
        counting.await_applied(query, 2)
    finally:
        query.stop()
    assert len(list(pushed.iterdir())) == 6
    counting.assert_right()


# ---- sources


def test_source_forgets_only_what_is_published(faults: FileFaults, counting: Counting) -> None:
    """cleanSource=delete: a batch's file is there as long as the batch may have to run again."""
    query = counting.start(faults.session(), source={"cleanSource": "delete"})
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        for text in ("oak ash", "elm"):
            number = counting.files
            file = counting.events / f"{number:04d}.json"
            with faults.hold() as await_held:
                counting.run_batch(query, text)
                await_held()
                counting.add("oak")
                assert not happens(lambda file=file: not file.exists()), f"{file.name} is gone"
                assert number not in counting.published
            counting.await_applied(query, number + 1)
            eventually(lambda file=file: not file.exists(), f"{file.name} to be deleted")
    finally:
        query.stop()
    counting.assert_right()
