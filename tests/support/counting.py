"""A query that counts words, driven batch by batch and watched from outside.

Problem: whether the commit protocol holds shows in three places that have nothing in common: the
rows in the sink, the files on disk at a given moment, and the run of a restart from them.
Answer: `Counting` is the smallest query with state, over a folder of its own: one input file is one
batch; the sink keeps the rows of each batch under the batch's number, replacing those of an earlier
run, and remembers the change; the logs and the state are read as a stranger would.
Invariant: a copy of the checkpoint and of the sink's folder equals the disk after a crash at that
moment (`crashed`): all that survives a process is on disk.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tailrace import drain
from tailrace.errors import CommitError

# Much longer than anything takes: on a busy machine the start of a cluster alone takes a minute.
PATIENCE_SECONDS = 300
# How long an event that must not happen is given to happen.
RESTRAINT_SECONDS = 0.7
OPTION = "spark.sql.streaming.stateStore.tailrace."

Sink = Callable[[DataFrame, int], None]


def words(text: str) -> list[str]:
    return text.split()


def counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy("word").agg(F.count("*").alias("count"))


def eventually(reached: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Waits until the condition gives a true value, and fails if it does not."""
    deadline = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)
    return found


def happens(reached: Callable[[], Any], seconds: float = RESTRAINT_SECONDS) -> bool:
    """Whether an event that must not happen does happen within a moment."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if reached():
            return True
        time.sleep(0.01)
    return False


def failpoints(spark: SparkSession) -> Any:
    """The engine's failpoints in this JVM."""
    return spark._jvm.tailrace.spark.EngineRuntime.current().failpoints()


@contextmanager
def failpoint(spark: SparkSession, specification: str) -> Iterator[None]:
    """The engine's failpoints in this JVM, until the end of the block."""
    faults = failpoints(spark)
    faults.arm(specification)
    try:
        yield
    finally:
        faults.arm("")


def new_session(spark: SparkSession, **options: str) -> SparkSession:
    """A session of the same Spark with tailrace's options (in Spark's spelling) set so."""
    session = spark.newSession()
    for name, value in options.items():
        session.conf.set(OPTION + name, value)
    return session


class Counting:
    """The query, its input, its checkpoint and its output.

    folder/events: the input, a file per batch; checkpoint; output: a file per batch.
    """

    def __init__(
        self,
        folder: Path,
        *,
        events: Path | None = None,
        checkpoint: Path | None = None,
        scheme: str = "file",
        partitions: int = 2,
    ) -> None:
        self.folder = folder
        self.events = events or folder / "events"
        self.checkpoint = checkpoint or folder / "checkpoint"
        self.output = folder / "output"
        self.location = f"{scheme}://{self.checkpoint}"
        self.partitions = partitions
        self.expected: Counter[str] = Counter()
        self.files = 0
        self.calls: list[int] = []
        self._lock = threading.Lock()
        for path in (self.events, self.output):
            path.mkdir(parents=True, exist_ok=True)

    # ---- input

    def add(self, text: str) -> None:
        """One more file, which appears as a whole: the next batch."""
        hidden = self.events / f".{self.files}"
        hidden.write_text("".join(json.dumps({"word": word}) + "\n" for word in words(text)))
        hidden.rename(self.events / f"{self.files:04d}.json")
        self.files += 1
        self.expected.update(words(text))

    # ---- the query

    def start(
        self,
        spark: SparkSession,
        *,
        build: Callable[[DataFrame], DataFrame] = counted,
        mode: str = "update",
        trigger: Mapping[str, Any] | None = None,
        source: Mapping[str, str] | None = None,
        sink: Sink | None = None,
    ) -> StreamingQuery:
        spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        options = {"maxFilesPerTrigger": "1", **(source or {})}
        frame = spark.readStream.schema("word STRING").options(**options)
        writer = (
            build(frame.json(self.events.as_uri()))
            .writeStream.outputMode(mode)
            .option("checkpointLocation", self.location)
            .foreachBatch(sink or self.keep)
        )
        return (writer.trigger(**trigger) if trigger else writer).start()

    def keep(self, batch: DataFrame, number: int) -> None:
        """The sink: idempotent in the batch's number, and it notices changed rows."""
        rows = sorted(json.dumps(row.asDict()) for row in batch.collect())
        with self._lock:
            self.calls.append(number)
            path = self.output / str(number)
            if path.exists() and (before := json.loads(path.read_text())) != rows:
                note = json.dumps({"first": before, "then": rows})
                (self.output / f"{number}.conflict").write_text(note)
            hidden = self.output / f".{number}"
            hidden.write_text(json.dumps(rows))
            hidden.rename(path)

    def run_batch(self, query: StreamingQuery, text: str) -> int:
        """Adds a file and returns the number of its batch once that is applied, if not more."""
        number = self.files
        self.add(text)
        self.await_applied(query, number)
        return number

    def await_applied(self, query: StreamingQuery, number: int) -> None:
        """Spark has handed the batch's commit entry over and goes on to the next batch."""

        def reached() -> bool:
            if not query.isActive and (error := query.exception()):
                raise error
            # A query without input reports the batch that it would run next.
            return any(
                report["batchId"] >= number and "addBatch" in report["durationMs"]
                for report in query.recentProgress
            )

        eventually(reached, f"batch {number} to be applied")

    # ---- the view from outside

    def logged(self, log: str) -> list[int]:
        """The batches of a log of Spark's, as the disk has them."""
        folder = self.checkpoint / log
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(int(path.name) for path in found if path.name.isdigit())

    def await_started(self, number: int) -> None:
        """The batch's offsets are prepared: they appear when the batch before is published."""
        folder = self.checkpoint / "offsets"

        def reached() -> bool:
            return any(folder.glob(f".{number}.*")) or number in self.logged("offsets")

        eventually(reached, f"batch {number} to be started")

    @property
    def published(self) -> list[int]:
        return self.logged("commits")

    def await_published(self, number: int) -> None:
        eventually(lambda: number in self.published, f"commits/{number}")

    def packs(self, version: int | None = None) -> list[Path]:
        folder = self.checkpoint / "state" / "tailrace"
        return sorted(folder.glob("*.pack.tr" if version is None else f"{version}-*.pack.tr"))

    def files_below(self) -> set[str]:
        below = self.checkpoint
        return {str(path.relative_to(below)) for path in below.rglob("*") if path.is_file()}

    @property
    def shown(self) -> dict[int, list[dict[str, Any]]]:
        """The rows that the sink has of each batch."""
        found = (path for path in self.output.iterdir() if path.name.isdigit())
        return {
            int(path.name): [json.loads(row) for row in json.loads(path.read_text())]
            for path in sorted(found, key=lambda path: int(path.name))
        }

    @property
    def totals(self) -> Counter[str]:
        """The last count of every word."""
        latest: Counter[str] = Counter()
        for rows in self.shown.values():
            latest.update({row["word"]: row["count"] - latest[row["word"]] for row in rows})
        return latest

    @property
    def conflicts(self) -> list[int]:
        """Batches that were run again and showed other rows than before."""
        return sorted(int(path.stem) for path in self.output.glob("*.conflict"))

    def state(self, spark: SparkSession, **options: Any) -> Counter[str]:
        """The counts as the state data source reads them from the checkpoint."""
        rows = spark.read.format("statestore").options(**options).load(self.location).collect()
        return Counter({row["key"]["word"]: row["value"]["count"] for row in rows})

    def assert_right(self) -> None:
        assert self.totals == self.expected
        assert self.conflicts == []

    # ---- crashes

    def crashed(self, name: str = "after-crash") -> Counting:
        """The disk after a crash at this moment, with the same input: to be started anew."""
        left = Counting(self.folder / name, events=self.events, partitions=self.partitions)
        left.output.rmdir()
        for part in ("checkpoint", "output"):
            shutil.copytree(self.folder / part, left.folder / part)
        left.expected = Counter(self.expected)
        left.files = self.files
        return left

    def problems_after(self, spark: SparkSession, **start: Any) -> list[str]:
        """Runs the query to the end of its input; its faults then, in words."""
        query = self.start(spark, trigger={"availableNow": True}, **start)
        try:
            query.awaitTermination(PATIENCE_SECONDS)
        except StreamingQueryException as error:
            return [f"the query failed: {error}"]
        finally:
            query.stop()
        # A query that ends by itself may end before its last batch is published (RFC 4).
        try:
            drain(spark, query=query)
        except CommitError as error:
            return [f"the last batch was not published: {error}"]
        problems = [f"batch {number} was shown again, changed" for number in self.conflicts]
        if self.totals != self.expected:
            problems.append(f"counted {dict(self.totals)} instead of {dict(self.expected)}")
        return problems
