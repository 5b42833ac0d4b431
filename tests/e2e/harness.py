"""Runs one streaming query on two state stores and compares everything it shows.

Problem: a state store is right when no output depends on the store a query ran on; hand-written
expectations cover only a few outputs.
Answer: a query is a `Case`: a function from input streams to a DataFrame, plus input given step by
step (one file per stream and step). `check` runs it on Spark's RocksDB store and on the candidate,
restarting both from their checkpoints between the same steps, and compares the rows of every batch.
Invariant: both runs show the same batch ids, per batch the same multiset of rows and the same
number of rows in every stateful operator; and each run's progress names the store it was meant to
use, so the comparison cannot pass by running one store twice.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from .data import Stream

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
TAILRACE = "tailrace.spark.TailraceStateStoreProvider"
CANDIDATE = os.environ.get("TAILRACE_E2E_CANDIDATE", TAILRACE)

# The custom metric in a query's progress that shows which store it ran on.
METRIC_PREFIX = {ROCKSDB: "rocksdb", HDFS: "loadedMapCache", TAILRACE: "tailrace"}

PROVIDER_CONF = "spark.sql.streaming.stateStore.providerClass"
FILE_MANAGER_CONF = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINT_FORMAT_CONF = "spark.sql.streaming.stateStore.checkpointFormatVersion"
JOIN_FORMAT_CONF = "spark.sql.streaming.join.stateFormatVersion"
AGGREGATION_FORMAT_CONF = "spark.sql.streaming.aggregation.stateFormatVersion"
SHUFFLE_CONF = "spark.sql.shuffle.partitions"
NO_DATA_BATCHES_CONF = "spark.sql.streaming.noDataMicroBatches.enabled"

# A query that hangs is a failure, not a test run that never ends.
PATIENCE_SECONDS = 300

Frames = Mapping[str, DataFrame]
CanonicalRow = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One query and its input. `reference` says how its output folds into a batch result:
    "append" is the union of all batches, "complete" the last batch, "update" the last row of each
    key in `reference_key`; None makes no such comparison."""

    name: str
    output_mode: str
    build: Callable[[Frames], DataFrame]
    streams: Mapping[str, Stream]
    conf: Mapping[str, str] = field(default_factory=dict)
    restart_after: tuple[int, ...] = (2,)
    drive: str = "available_now"
    reference: str | None = None
    reference_key: tuple[str, ...] = ()
    needs_column_families: bool = False
    needs_checkpoint_ids: bool = False
    compare_row_counts: bool = True

    @property
    def steps(self) -> int:
        return max(len(stream.steps) for stream in self.streams.values())

    def restarted_after_each_step(self) -> Case:
        return replace(
            self,
            name=f"{self.name}_restart_each",
            restart_after=tuple(range(1, self.steps)),
        )


@dataclass
class Outcome:
    """The outcome of a run: rows per batch id, progress reports, and where its checkpoint is."""

    provider: str
    checkpoint: Path
    columns: list[str]
    batches: dict[int, Counter[CanonicalRow]] = field(default_factory=dict)
    progress: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> Counter[CanonicalRow]:
        return sum(self.batches.values(), Counter())

    def row_counts(self) -> dict[int, list[int]]:
        return {
            report["batchId"]: [operator["numRowsTotal"] for operator in report["stateOperators"]]
            for report in self.progress
            if report["batchId"] in self.batches
        }


def canonical(value: Any) -> Any:
    """A hashable, comparable form of a collected value; floats by their exact representation."""
    if isinstance(value, (list, tuple)):
        return tuple(canonical(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((canonical(k), canonical(v)) for k, v in value.items()))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def canonical_rows(rows: Sequence[Row]) -> Counter[CanonicalRow]:
    return Counter(canonical(row) for row in rows)


def new_session(spark: SparkSession, provider: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of its own per run: stores and options of two runs never mix."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set(SHUFFLE_CONF, "2")
    session.conf.set(PROVIDER_CONF, provider)
    if provider != TAILRACE:  # the other side is Spark as it comes
        session.conf.unset(FILE_MANAGER_CONF)
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def open_streams(session: SparkSession, case: Case, directory: Path) -> dict[str, DataFrame]:
    frames = {}
    for name, stream in case.streams.items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        frames[name] = (
            session.readStream.schema(stream.schema)
            .option("maxFilesPerTrigger", 1)
            .json((directory / name).as_uri())
        )
    return frames


def start_query(
    session: SparkSession,
    case: Case,
    directory: Path,
    sink: Callable[[DataFrame, int], None],
    checkpoint: str = "checkpoint",
) -> Any:
    frame = case.build(open_streams(session, case, directory))
    writer = (
        frame.writeStream.outputMode(case.output_mode)
        .option("checkpointLocation", (directory / checkpoint).as_uri())
        .foreachBatch(sink)
    )
    if case.drive == "available_now":
        writer = writer.trigger(availableNow=True)
    return writer.start()


def collecting_sink(outcome: Outcome) -> Callable[[DataFrame, int], None]:
    """Collects each batch. A batch that Spark runs again must show the same rows as before."""
    lock = threading.Lock()

    def collect(batch: DataFrame, batch_id: int) -> None:
        rows = canonical_rows(batch.collect())
        with lock:
            outcome.columns[:] = batch.columns
            assert outcome.batches.setdefault(batch_id, rows) == rows, (
                f"batch {batch_id} ran again and gave other rows"
            )

    return collect


def run(
    spark: SparkSession,
    case: Case,
    provider: str,
    directory: Path,
    sink_for: Callable[[Outcome], Callable[[DataFrame, int], None]] = collecting_sink,
    session_for_segment: Callable[[int], SparkSession] | None = None,
    partitions: int = 2,
) -> Outcome:
    """Runs the case segment by segment; between two segments the query stops and starts again."""
    outcome = Outcome(provider, directory / "checkpoint", [])
    own_session = new_session(spark, provider, {SHUFFLE_CONF: str(partitions), **case.conf})
    if case.needs_column_families and provider != ROCKSDB:
        pin_recorded_conf(own_session, case, directory)
    boundaries = [0, *case.restart_after, case.steps]
    for segment, (first, end) in enumerate(pairwise(boundaries)):
        session = session_for_segment(segment) if session_for_segment else own_session
        if case.drive == "available_now":
            write_steps(case, directory, first, end)
            query = start_query(session, case, directory, sink_for(outcome))
            await_end(query)
        else:
            query = start_query(session, case, directory, sink_for(outcome))
            try:
                for step in range(first, end):
                    write_steps(case, directory, step, step + 1)
                    query.processAllAvailable()
            finally:
                query.stop()
        outcome.progress.extend(progress_of(query))
    return outcome


def pin_recorded_conf(session: SparkSession, case: Case, directory: Path) -> None:
    """Makes the checkpoint of a query that was stopped within its first batch, settings and all.

    Spark quietly turns join formats 3 and 4 of a new query into 2 unless its store is RocksDB's
    (`MicroBatchExecution.applyJoinStateConfigGuardrails`), but keeps to a checkpoint's format.
    1. Run the first step on a checkpoint of its own, which records format 2.
    2. Take its first offsets, put the case's settings in, and leave out commits and state.
    The query then runs its first batch again, from these offsets and with these settings.
    """
    seed = directory / "seed"
    write_steps(case, directory, 0, 1)
    query = start_query(session, case, directory, lambda batch, _: batch.collect(), "seed")
    await_end(query)
    checkpoint = directory / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    shutil.copy(seed / "metadata", checkpoint / "metadata")
    shutil.copytree(seed / "sources", checkpoint / "sources")
    version, metadata, *offsets = (seed / "offsets" / "0").read_text("utf-8").split("\n")
    edited = json.loads(metadata)
    edited["conf"].update(case.conf)
    text = "\n".join([version, json.dumps(edited), *offsets])
    (checkpoint / "offsets" / "0").write_text(text, "utf-8")


def recorded_conf(checkpoint: Path) -> dict[str, str]:
    """The settings under which the query's first batch ran, from the offset log."""
    metadata = (checkpoint / "offsets" / "0").read_text("utf-8").split("\n")[1]
    return json.loads(metadata)["conf"]


def assert_ran_with_conf(outcome: Outcome, case: Case) -> None:
    """Spark used the case's settings and did not quietly put others in their place."""
    recorded = recorded_conf(outcome.checkpoint)
    pinned = {key: value for key, value in case.conf.items() if key in recorded}
    assert {key: recorded[key] for key in pinned} == pinned


def write_steps(case: Case, directory: Path, first: int, end: int) -> None:
    for step in range(first, end):
        for name, stream in case.streams.items():
            if step < len(stream.steps):
                stream.write_step(directory / name, step)


def await_end(query: Any) -> None:
    try:
        ended = query.awaitTermination(PATIENCE_SECONDS)
        assert ended, f"the query did not end within {PATIENCE_SECONDS} seconds"
    finally:
        query.stop()


def progress_of(query: Any) -> list[dict[str, Any]]:
    return [json.loads(report.json) for report in query.recentProgress]


def assert_ran_on(outcome: Outcome, provider: str) -> None:
    """Every stateful operator of every batch reports the metrics of the named store."""
    prefix = METRIC_PREFIX[provider]
    operators = [operator for report in outcome.progress for operator in report["stateOperators"]]
    assert operators, "the query reported no stateful operator: it tests no state store"
    for operator in operators:
        names = sorted(operator["customMetrics"])
        assert any(name.startswith(prefix) for name in names), (
            f"{operator['operatorName']} did not run on {provider}: its metrics are {names}"
        )


def difference(expected: Counter[CanonicalRow], actual: Counter[CanonicalRow]) -> str:
    missing, surplus = expected - actual, actual - expected
    return (
        f"missing {sum(missing.values())} rows, e.g. {sorted(missing, key=repr)[:5]}; "
        f"surplus {sum(surplus.values())} rows, e.g. {sorted(surplus, key=repr)[:5]}"
    )


def assert_same_output(case: Case, expected: Outcome, actual: Outcome) -> None:
    assert sum(expected.rows().values()) > 0, f"{case.name}: empty output compares nothing"
    assert expected.columns == actual.columns
    assert sorted(actual.batches) == sorted(expected.batches), f"{case.name}: other batches ran"
    for batch_id, rows in sorted(expected.batches.items()):
        assert actual.batches[batch_id] == rows, (
            f"{case.name}, batch {batch_id}: {difference(rows, actual.batches[batch_id])}"
        )
    if case.compare_row_counts:
        assert actual.row_counts() == expected.row_counts(), f"{case.name}: other state row counts"


def assert_equals_batch_computation(spark: SparkSession, case: Case, outcome: Outcome) -> None:
    """The same `build` over the whole input as plain tables gives the rows of the stream."""
    session = new_session(spark, ROCKSDB, case.conf)
    frames = {
        name: session.createDataFrame(stream.table_rows(), stream.schema)
        for name, stream in case.streams.items()
    }
    expected = canonical_rows(case.build(frames).collect())
    last_batch_first = [outcome.batches[batch_id] for batch_id in sorted(outcome.batches)][::-1]
    if case.reference == "append":
        actual = outcome.rows()
    elif case.reference == "complete":
        actual = last_batch_first[0]
    else:
        positions = [outcome.columns.index(name) for name in case.reference_key]
        latest: dict[CanonicalRow, CanonicalRow] = {}
        for rows in last_batch_first:
            for row in rows:
                latest.setdefault(tuple(row[position] for position in positions), row)
        actual = Counter(latest.values())
    assert actual == expected, f"{case.name} against batch: {difference(expected, actual)}"


def skip_if_unsupported(case: Case) -> None:
    if CANDIDATE == HDFS and (case.needs_column_families or case.needs_checkpoint_ids):
        pytest.skip("Spark's HDFS store has neither column families nor checkpoint ids")


def run_on_both(
    spark: SparkSession, case: Case, directory: Path, rocksdb_partitions: int = 2, **options: Any
) -> list[Outcome]:
    """RocksDB's outcome and the candidate's; the two runs share the machine, nothing else."""
    print(f"case={case.name} seeds={sorted({stream.seed for stream in case.streams.values()})}")
    with ThreadPoolExecutor(2) as pool:
        futures = [
            pool.submit(
                run, spark, case, provider, directory / label, partitions=partitions, **options
            )
            for label, provider, partitions in (
                ("rocksdb", ROCKSDB, rocksdb_partitions),
                ("candidate", CANDIDATE, 2),
            )
        ]
        outcomes = [future.result() for future in futures]
    for outcome in outcomes:
        assert_ran_on(outcome, outcome.provider)
        assert_ran_with_conf(outcome, case)
    return outcomes


def check(spark: SparkSession, case: Case, directory: Path) -> None:
    skip_if_unsupported(case)
    # A query's output does not depend on the number of partitions, and RocksDB's time does.
    expected, actual = run_on_both(spark, case, directory, rocksdb_partitions=1)
    assert_same_output(case, expected, actual)
    if case.reference:
        assert_equals_batch_computation(spark, case, actual)


def parametrize(cases: Sequence[Case]) -> pytest.MarkDecorator:
    names = [case.name for case in cases]
    assert len(names) == len(set(names)), f"two cases share a name: {names}"
    return pytest.mark.parametrize("case", cases, ids=names)
