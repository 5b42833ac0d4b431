"""Decides whether a query that was killed shows the same as when it is not killed.

Problem: rows that are lost, doubled or changed must be seen, in the output and in the state that
later batches will build on; and state that only the dying process could still read is lost as well.
Answer: the same query over the same input runs undisturbed, on Spark's own store; output and state
are then read by a process that ran neither, through Spark: the file sink's log and the state data
source. Rows are compared as multisets.
Invariant: besides equal rows, every batch that has offsets is published, none between is missing,
and no batch was shown to a sink twice with different rows.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from support.chaos import Chain
from support.chaos_input import prepare
from support.chaos_query import CONFS, FOLDERS, Failpoints, Query, logged, run
from support.stores import HDFS_CLASS

SHOWN_ROWS = 5


@dataclass(frozen=True)
class Result:
    """Output and state of a run, as far as they may be compared."""

    output: Counter[str]
    state: Counter[tuple[str, ...]]


class Referee:
    """Compares chains with undisturbed runs, which it keeps."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._expected: dict[tuple[str, int, int], Result] = {}

    def judge(self, chain: Chain) -> None:
        """Raises ChaosError unless the chain's output and state are the undisturbed run's."""
        problems = self.problems(chain)
        if problems:
            raise chain.error("is over, and the result is wrong: " + "; ".join(problems))

    def problems(self, chain: Chain) -> list[str]:
        """The faults, in words; empty if there are none."""
        kind = chain.setting.kind
        expected = self.expected(kind, chain.seed, chain.files, chain.setting.partitions)
        problems = unpublished(chain.folder / "checkpoint") + conflicts(chain.folder / "output")
        if problems:
            return problems
        actual = self.result(self.spark, kind, chain.setting.sink, chain.folder)
        problems += difference("output", expected.output, actual.output)
        problems += difference("state", expected.state, actual.state)
        return problems

    def expected(self, kind: str, seed: int, files: int, partitions: int = 2) -> Result:
        key = (f"{kind}-{partitions}", seed, files)
        if key not in self._expected:
            folder = self.folder / "-".join(map(str, key))
            session = self._plain_session(partitions)
            prepare(folder, kind, seed, files)
            query = Query(kind, "foreach", "files", *(folder / name for name in FOLDERS))
            run(session, query, Failpoints(""))
            result = self.result(session, kind, "foreach", folder)
            assert result.output, f"{kind}: no output compares nothing"
            assert result.state, f"{kind}: no state compares nothing"
            self._expected[key] = result
        return self._expected[key]

    def _plain_session(self, partitions: int) -> SparkSession:
        """Spark as it comes: a fault of tailrace with and without kills must show, too."""
        session = self.spark.newSession()
        session.conf.set("spark.sql.streaming.stateStore.providerClass", HDFS_CLASS)
        session.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        for key, value in CONFS.items():
            if key.startswith("spark.sql."):
                session.conf.set(key, value)
        return session

    def result(self, spark: SparkSession, kind: str, sink: str, folder: Path) -> Result:
        output = folder / "output"
        return Result(
            read_files(spark, output) if sink == "file" else read_batches(output),
            read_state(spark, kind, folder / "checkpoint"),
        )


def read_files(spark: SparkSession, output: Path) -> Counter[str]:
    """The rows that the file sink's log lists; a folder without a log would show all files."""
    assert (output / "_spark_metadata").is_dir(), "the file sink left no log"
    return Counter(row[0] for row in spark.read.text(output.as_uri()).collect())


def read_batches(output: Path) -> Counter[str]:
    """The rows of all batches of the foreachBatch sink."""
    batches = [path for path in output.iterdir() if path.name.isdigit()]
    return Counter(row for path in batches for row in json.loads(path.read_text("utf-8")))


def read_state(spark: SparkSession, kind: str, checkpoint: Path) -> Counter[tuple[str, ...]]:
    """Key and value of every row, with its partition, and for a join its side.

    Not of medians: tailrace keeps rows there, of which Spark's reader has no schema, and the
    reference keeps buffers. A fault of their state shows in the output: sessions still open after
    the closing file are of that file alone.
    """
    if kind == "medians":
        return Counter({("not compared",): 1})
    sides = ("left", "right") if kind == "join" else ("",)
    rows: Counter[tuple[str, ...]] = Counter()
    for side in sides:
        reader = spark.read.format("statestore")
        if side:
            reader = reader.option("joinSide", side)
        frame = reader.load(checkpoint.as_uri())
        # By field: the value of a join holds one more than its schema says, for Spark's own use.
        for row in frame.select("partition_id", "key.*", "value.*").collect():
            found = (side, *map(str, row))
            rows[found] += 1
    return rows


def unpublished(checkpoint: Path) -> list[str]:
    """A query that came to its end has published all its batches."""
    offsets, commits = logged(checkpoint / "offsets"), logged(checkpoint / "commits")
    if offsets == commits == list(range(len(commits))):
        return []
    return [f"the batches with offsets are {offsets}, those published are {commits}"]


def conflicts(output: Path) -> list[str]:
    """Batches that the foreachBatch sink was shown twice, with different rows."""
    return [
        f"batch {path.stem} was shown to the sink again with other rows (see {path.name})"
        for path in sorted(output.glob("*.conflict"))
    ]


def difference(what: str, expected: Counter[Any], actual: Counter[Any]) -> list[str]:
    """Missing and surplus rows, apart and with examples."""
    problems = []
    for word, rows in (("missing", expected - actual), ("too many", actual - expected)):
        if rows:
            examples = sorted(map(str, rows))[:SHOWN_ROWS]
            problems.append(f"{what}: {sum(rows.values())} rows {word}, e.g. {examples}")
    return problems
