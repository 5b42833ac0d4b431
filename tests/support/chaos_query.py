"""The victim of a kill test: a process of its own that runs one stateful query to its end.

Problem: exactly once is a promise about processes that die at any moment, so the program of the
query must be killable as a whole, must start fast, and must carry on where its predecessor died.
Answer: a program over a folder of prepared files (chaos_input.py). It runs the query until the
input is used up, waits until every batch is published, moves the closing file into the input, runs
the query again and exits with 0. It prints "ready", "batch N" (offsets are logged), "published
N" and "done", so that a killer can choose its moment. TAILRACE_FAILPOINTS is the engine's; "sink.*"
of the foreachBatch sink, which no engine sees, is honoured here.
Invariant: run again on the same folders after any death it goes on, and ends with the same output
and state as a run that was never killed. Exit code 137: the JVM was halted by a failpoint; 1: the
query failed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pyspark import SparkConf, SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

import tailrace
from support.chaos_input import KINDS, SCHEMA, STREAMS, WATERMARK_DELAY, file_name
from support.compilation import harness_jar

SINKS = ("file", "foreach")
SOURCES = ("files", "cleaned", "python")
FOLDERS = ("input", "closing", "checkpoint", "output")
HALTED = 137
PATIENCE_SECONDS = 300
POLL_SECONDS = 0.005

# A life is short: code that is compiled or verified runs only a few times.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Xms512m",
    "-Xmn256m",
)
CONFS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    # Reads TAILRACE_FAILPOINTS: the engine itself does not.
    "spark.plugins": "tailrace.testing.FaultsPlugin",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Query:
    """Which query to run, and where everything of it is."""

    kind: str
    sink: str
    source: str
    input: Path
    closing: Path
    checkpoint: Path
    output: Path


# ---- the queries ---------------------------------------------------------------------------------


def build(kind: str, streams: Mapping[str, DataFrame]) -> DataFrame:
    """Results depend on no batch boundary as long as no row is late, which the input sees to."""
    if kind == "join":
        return _join(streams["shown"], streams["clicks"])
    events = _timed(streams["events"])
    totals = (F.count("*").alias("count"), F.sum("amount").alias("sum"), F.max("id").alias("last"))
    if kind == "window":
        return events.groupBy(F.window("time", "20 seconds"), "key").agg(*totals)
    if kind == "session":
        return events.groupBy(F.session_window("time", "5 seconds"), "key").agg(*totals)
    if kind == "medians":
        every = (
            F.median("amount").alias("median"),
            F.sort_array(F.collect_list("id")).alias("ids"),
        )
        return events.groupBy(F.session_window("time", "5 seconds"), "key").agg(*every)
    if kind == "dedup":
        return events.dropDuplicates(["id", "time"])
    assert kind == "unique"
    return streams["events"].dropDuplicates(["id"])


def _timed(stream: DataFrame) -> DataFrame:
    timed = stream.withColumn("time", F.timestamp_millis("ms"))
    return timed.withWatermark("time", WATERMARK_DELAY)


def _join(shown: DataFrame, clicks: DataFrame) -> DataFrame:
    left = _timed(shown).select(
        F.col("id").alias("shown_id"), "key", F.col("time").alias("shown_at"), "amount"
    )
    right = _timed(clicks).select(
        F.col("id").alias("click_id"), F.col("key").alias("clicked"), F.col("time").alias("at")
    )
    matches = F.expr("key = clicked AND at BETWEEN shown_at AND shown_at + INTERVAL 4 SECONDS")
    return left.join(right, matches, "left_outer")


# ---- the sources ---------------------------------------------------------------------------------


def open_streams(spark: SparkSession, query: Query) -> dict[str, DataFrame]:
    return {
        stream: _open(spark, query.source, query.input / stream) for stream in STREAMS[query.kind]
    }


def _open(spark: SparkSession, source: str, folder: Path) -> DataFrame:
    if source == "python":
        spark.dataSource.register(ForgetfulSource)
        return spark.readStream.format("forgetful").option("path", str(folder)).load()
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    if source == "cleaned":
        reader = reader.option("cleanSource", "delete")
    return reader.json(folder.as_uri())


class ForgetfulSource(DataSource):
    """A folder of numbered files that deletes those of committed batches: a queue, in short."""

    @classmethod
    def name(cls) -> str:
        return "forgetful"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        return ForgetfulReader(self.options["path"])


class ForgetfulReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One file a batch. The offset is the number of the next file.

    A file that is asked for and deleted raises: rows deleted too early are never just missing.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.end = 0

    def prepareForTriggerAvailableNow(self) -> None:
        self.end = max((int(path.stem) + 1 for path in self.folder.glob("*.json")), default=0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(1)

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(
        self,
        start: dict[str, int],
        limit: ReadLimit,  # noqa: ARG002 - one file, as for every trigger with a limit
    ) -> dict[str, int]:
        return {"next": min(start["next"] + 1, max(self.end, start["next"]))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["next"], end["next"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with (self.folder / file_name(partition.value)).open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield row["id"], row["key"], row["ms"], row["amount"]

    def commit(self, end: dict[str, int]) -> None:
        for path in self.folder.glob("*.json"):
            if int(path.stem) < end["next"]:
                path.unlink(missing_ok=True)


# ---- the sinks -----------------------------------------------------------------------------------


def start(spark: SparkSession, query: Query, failpoints: Failpoints) -> StreamingQuery:
    frame = build(query.kind, open_streams(spark, query))
    writer = (
        frame.writeStream.outputMode("append")
        .option("checkpointLocation", query.checkpoint.as_uri())
        .trigger(availableNow=True)
    )
    return _to_sink(writer, query, failpoints).start()


def _to_sink(writer: DataStreamWriter, query: Query, failpoints: Failpoints) -> DataStreamWriter:
    """file: Spark's own, which skips a batch that its log has: its plan does not even run then.
    foreach: replaces the rows of an earlier run of the batch."""
    if query.sink == "file":
        return writer.format("json").option("path", query.output.as_uri())
    query.output.mkdir(parents=True, exist_ok=True)

    def keep(batch: DataFrame, batch_id: int) -> None:
        rows = [row[0] for row in batch.select(F.to_json(F.struct("*"))).collect()]
        failpoints.passing("sink.before")
        keep_batch(query.output, batch_id, rows)
        failpoints.passing("sink.after")

    return writer.foreachBatch(keep)


def keep_batch(output: Path, batch_id: int, rows: list[str]) -> None:
    """Replaces the rows of an earlier run of the batch, and takes note if those were others.

    A sink that skips a batch it has seen, as Spark's file sink does, would keep the first run's
    rows: batches that were shown may not change.
    """
    rows = sorted(rows)
    path = output / str(batch_id)
    hidden = output / f".{batch_id}"
    if path.exists() and (before := json.loads(path.read_text("utf-8"))) != rows:
        note = json.dumps({"first": before, "then": rows})
        (output / f"{batch_id}.conflict").write_text(note, "utf-8")
    hidden.write_text(json.dumps(rows), "utf-8")
    hidden.replace(path)


class Failpoints:
    """TAILRACE_FAILPOINTS, "name@hit=action,...": the action at the hit-th passing of a point."""

    def __init__(self, text: str) -> None:
        self.passed: dict[str, int] = {}
        self.actions: list[tuple[str, int, str, int]] = []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            place, _, action = entry.partition("=")
            name, _, hit = place.partition("@")
            verb, _, number = action.partition(":")
            self.actions.append((name, int(hit or 1), verb, int(number or 1)))

    def passing(self, name: str) -> None:
        count = self.passed[name] = self.passed.get(name, 0) + 1
        for point, hit, verb, number in self.actions:
            if point != name or count < hit:
                continue
            if verb == "delay":
                time.sleep(number / 1000)
            elif verb == "fail" and count < hit + number:
                raise OSError(f"failpoint {name}@{hit}")
            elif verb == "die" and count == hit:
                raise RuntimeError(f"failpoint {name}@{hit}")
            elif verb == "kill" and count == hit:
                _halt()


def _halt() -> NoReturn:
    """The engine's own "kill", from the Python side: no code runs after it."""
    os.kill(_jvm().pid, signal.SIGKILL)
    os._exit(HALTED)


# ---- the program ---------------------------------------------------------------------------------


def run(spark: SparkSession, query: Query, failpoints: Failpoints) -> None:
    """1. All files but the closing ones. 2. Wait for the last batch. 3. The closing files."""
    # 1.
    _to_end(start(spark, query, failpoints))
    # 2. Joined with the file before it, the closing file would not run under the final watermark.
    await_publication(query.checkpoint)
    # 3. Moved, not copied: a closing file that was used up and deleted is not put there again.
    for stream in STREAMS[query.kind]:
        for path in (query.closing / stream).glob("*.json"):
            path.rename(query.input / stream / path.name)
    _to_end(start(spark, query, failpoints))
    await_publication(query.checkpoint)


def _to_end(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def logged(log: Path) -> list[int]:
    """The batches of a log of Spark's: offsets or commits."""
    try:
        names = os.listdir(log)  # noqa: PTH208 - a Path for each of them, 200 times a second
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def await_publication(checkpoint: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while logged(checkpoint / "offsets")[-1:] != logged(checkpoint / "commits")[-1:]:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"The query ended {PATIENCE_SECONDS} s ago, but not all its batches are "
                f"published: offsets {logged(checkpoint / 'offsets')[-3:]}, "
                f"commits {logged(checkpoint / 'commits')[-3:]}."
            )
        time.sleep(POLL_SECONDS)


def speculative_attempts(spark: SparkSession) -> int:
    """How many tasks Spark ran a second time beside the first, in the stages it remembers."""
    status = spark.sparkContext._jsc.sc().statusStore()
    first_attempts = (status.speculationSummary(stage, 0) for stage in range(MOST_STAGES))
    return sum(found.get().numTasks() for found in first_attempts if found.isDefined())


def say(line: str) -> None:
    print(line, flush=True)


def report_progress(checkpoint: Path) -> None:
    """Prints new entries of the logs, from a thread beside the query."""
    seen = {word: set(logged(checkpoint / log)) for word, log in LOGS.items()}

    def watch() -> None:
        while True:
            for word, log in LOGS.items():
                for number in logged(checkpoint / log):
                    if number not in seen[word]:
                        seen[word].add(number)
                        say(f"{word} {number}")
            time.sleep(POLL_SECONDS)

    threading.Thread(target=watch, daemon=True).start()


# More than a life has.
MOST_STAGES = 500
TWO_HOSTS = "two hosts"
HOSTS = ("127.0.0.1", "127.0.0.2")
CORES = 2
MEGABYTES = 1024
LOGS = {"batch": "offsets", "published": "commits"}


def die_with_parent() -> None:
    """Ends the whole process group when the parent process has ended, by any signal."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    if os.getpgrp() == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


def _jvm() -> subprocess.Popen[bytes]:
    gateway: Any = SparkContext._gateway
    jvm: subprocess.Popen[bytes] = gateway.proc
    return jvm


def _exit_code(error: BaseException) -> int:
    """Whether the query failed or the JVM has ended; a dead JVM shows as one of many errors."""
    if isinstance(error, (StreamingQueryException, TimeoutError)):
        return 1
    try:
        code = _jvm().wait(timeout=60)
    except (AttributeError, subprocess.TimeoutExpired):
        return 1
    print(f"the JVM ended with code {code}", file=sys.stderr)
    return HALTED if code == HALTED else 1


def session(
    master: str,
    partitions: int,
    options: Mapping[str, Any],
    confs: Mapping[str, str],
    java_options: Sequence[str],
) -> SparkSession:
    settings = {
        **CONFS,
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.driver.extraJavaOptions": " ".join([*JAVA_OPTIONS, *java_options]),
        "spark.jars": str(harness_jar()),
        **confs,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = tailrace.configure(builder, **options)
    if master == TWO_HOSTS:
        master = start_cluster(builder._options)
    return builder.master(master).getOrCreate()


def start_cluster(settings: Mapping[str, str]) -> str:
    """A master and a worker for each host, in Spark's own JVM, as in a local cluster of Spark's.

    There all workers are on one host, and Spark never runs two attempts of a task on one host.
    """
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(settings.items()))
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    conf = jvm.org.apache.spark.SparkConf().set("spark.master.rest.enabled", "false")
    deploy = jvm.org.apache.spark.deploy
    masters, workers = (
        getattr(java_class, "MODULE$")
        for java_class in (getattr(deploy.master, "Master$"), getattr(deploy.worker, "Worker$"))
    )
    started = masters.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = f"spark://{HOSTS[0]}:{started._1().address().port()}"
    for number, host in enumerate(HOSTS, 1):
        workers.startRpcEnvAndEndpoint(
            host, 0, 0, CORES, MEGABYTES, urls, None,
            jvm.scala.Option.apply(number), conf, jvm.scala.Option.empty(),
        )  # fmt: skip
    return str(urls[0])


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def _value(text: str) -> Any:
    """Numbers as numbers, everything else as it is: max_deltas=2, compression=zstd."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main() -> int:
    parser = argparse.ArgumentParser(description="run one stateful query to its end")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--sink", choices=SINKS, required=True)
    parser.add_argument("--source", choices=SOURCES, default="files")
    for folder in FOLDERS:
        parser.add_argument(f"--{folder}", type=Path, required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--partitions", type=int, default=2, help="shuffle partitions")
    parser.add_argument("--option", type=_pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--conf", type=_pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--java-option", action="append", default=[], help="for Spark's JVM")
    given = parser.parse_args()
    die_with_parent()
    query = Query(
        given.kind,
        given.sink,
        given.source,
        *(getattr(given, folder).resolve() for folder in FOLDERS),
    )
    options = {key: _value(value) for key, value in given.option}
    if given.kind == "medians":  # rows that are in files on this machine between two batches
        options = {"spill": "always", **options}
    spark = session(given.master, given.partitions, options, dict(given.conf), given.java_option)
    say("ready")
    report_progress(query.checkpoint)
    run(spark, query, Failpoints(os.environ.get("TAILRACE_FAILPOINTS", "")))
    if dict(given.conf).get("spark.speculation") == "true":
        say(f"speculative attempts: {speculative_attempts(spark)}")
    spark.stop()
    say("done")
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except Exception as error:
        traceback.print_exc()
        code = _exit_code(error)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)  # no handler that talks to a JVM which has ended
