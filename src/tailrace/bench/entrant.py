"""One store's query in a run: started once, kept alive, run batch by batch.

Problem: stopping a query between its turns would make it load its state again, and a query that
is not stopped takes part in all measurements.
Answer: the query stands at a gate and sleeps. One call lets one batch through and returns the
batch's costs.
Invariant: of all entrants of a run, at most one is running a batch.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.bench.gate import Gate, Turn, gated_events
from tailrace.bench.loops import Loop
from tailrace.bench.meters import FileLedger, Meters, Sample
from tailrace.bench.plan import Job, Plan
from tailrace.bench.progress import batch_row, digest
from tailrace.bench.remote import LineMeter
from tailrace.bench.stores import BenchError, Store, bounded, session_for
from tailrace.explain import StoreUse, classify
from tailrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBSERVATION = "tailrace_bench"
PRELOAD_ROWS = 250_000
_MASK = 1 << 40


class Entrant:
    """A query on a store, with its gate, its checkpoint and its meters."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        job: Job,
        plan: Plan,
        loop: Loop,
        folder: Path,
        tailrace_confs: dict[str, str],
    ) -> None:
        self.store = store
        self.loop = loop
        self.rows: list[dict[str, Any]] = []
        self.digests: dict[int, list[int]] = {}
        self._spark = spark
        self._folder = folder
        self._meters = Meters(spark)
        self._files = FileLedger(folder)
        self._line = LineMeter(spark, plan.remote) if plan.remote else None
        self._gate = Gate(spark, folder.name)
        self._last: Sample | None = None
        self._number = 0
        # With little memory a large batch would not fit.
        fitting = job.rows if job.options else PRELOAD_ROWS
        self._preloaded_at_once = job.preload_batch or fitting
        options = Options.of(**_placed(job.options, folder)).confs() if job.options else {}
        session = session_for(spark, store, {**tailrace_confs, **options})
        if store.rocksdb and "memory_limit" in job.options:
            for key, value in bounded(job.options["memory_limit"]).items():
                session.conf.set(key, value)
        source = gated_events(session, job.events, folder.name, plan.partitions)
        frame = job.workload.build(source, job.query)
        if plan.check and not store.floor:
            frame = observed(frame)
        self._query = (
            frame.writeStream.format("noop")
            .outputMode(job.workload.output_mode)
            .queryName(folder.name)
            .option("checkpointLocation", self._location(plan, store))
            .start()
        )

    def _location(self, plan: Plan, store: Store) -> str:
        if store.background:
            return f"behind://{self._folder}"
        far = plan.remote and not store.near
        return f"remote://{self._folder}" if far else self._folder.as_uri()

    def preload(self, rows: int) -> None:
        """Lets rows through that are not measured."""
        while rows > 0:
            size = min(rows, self._preloaded_at_once)
            self._run(size)
            rows -= size

    def begin_turn(self) -> None:
        self._meters.reset_peaks()
        self._last = self._meters.sample()
        self._files.written()
        if self._line:
            self._line.spent()
        self.loop.begin()

    def batch(self, repeat: int, phase: str | int, order: int) -> dict[str, Any]:
        """Runs one batch of the loop; `phase` is the round, or "warmup"."""
        before = self._last or self._meters.sample()
        turn, rows, extra = self.loop.batch(self._run)
        self._last = self._meters.sample()
        report = self._report(turn)
        row: dict[str, Any] = {
            "repeat": repeat,
            "round": phase,
            "order": order,
            "rows": rows,
            "seconds": round(turn.seconds, 6),
            **batch_row(report, turn.waited_seconds * 1000),
            **self._last.since(before),
            "checkpoint": self._files.written(),
            **extra,
        }
        if not self.store.counts:
            row["state"]["rows"] = None
        if self._line:
            row["line"] = self._line.spent()
        result = digest(report, OBSERVATION)
        if result is not None:
            row["output_rows"] = result[0]
            self.digests[self._number] = result
        self._number += 1
        if phase != "warmup":
            self.rows.append(row)
        return row

    def end_turn(self) -> None:
        self.loop.pause()

    def uses(self) -> list[StoreUse]:
        """How the query's stores are used, as the plan of its last batch says."""
        return classify(self._query)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # a query that failed is already stopped
            self._query.stop()
        with contextlib.suppress(Exception):  # nothing may be on its way into the folder
            # Reading the log waits for that, on any store and with any build of the engine.
            self._query._jsq.streamingQuery().commitLog().getLatestBatchId()
        self._gate.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, rows: int) -> Turn:
        return self._gate.wait(self._gate.admit(rows), self._check)

    def _check(self) -> None:
        if not self._query.isActive:
            from tailrace.cli._local import readable

            raise BenchError(
                f"The query on {self.store.title} failed.",
                readable(str(self._query.exception())),
                "If it is the machine's memory, use fewer rows or keys or a larger --memory; "
                "run the store alone to see whether it is the store: --stores " + self.store.name,
            )

    def _report(self, turn: Turn) -> dict[str, Any]:
        # As the JVM writes it: PySpark's object turns parts of it into rows.
        progress: Any = self._query._jsq.lastProgress()
        report: dict[str, Any] = json.loads(progress.json())
        end = report["sources"][0]["endOffset"]
        if end[0] != turn.end:
            raise BenchError(
                f"The query on {self.store.title} reported another batch than the one it ran.",
                f"Its last report ends at row {end[0]:,}, the batch at row {turn.end:,}.",
                "This is a defect of the bench: please report it.",
            )
        return report


def _placed(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Options in which {folder} stands for a folder that goes with the session's."""
    beside = str(folder.with_name(f"{folder.name}-cold"))
    return {
        name: value.replace("{folder}", beside) if isinstance(value, str) else value
        for name, value in options.items()
    }


def observed(frame: DataFrame) -> DataFrame:
    """The same rows, with their number and a digest of them in the query's progress.

    The digest does not depend on the order of rows. Numbers with a fraction are rounded first: a
    sum of them depends on the order of its parts.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import DoubleType, FloatType, MapType

    columns = []
    for field in frame.schema.fields:
        column = f.col(f"`{field.name}`")
        if isinstance(field.dataType, (DoubleType, FloatType)):
            column = f.round(column, 6)
        elif isinstance(field.dataType, MapType):
            column = f.size(column)
        columns.append(column)
    hashed = f.pmod(f.xxhash64(*columns), f.lit(_MASK))
    return frame.observe(
        OBSERVATION, f.count(f.lit(1)).alias("rows"), f.sum(hashed).alias("digest")
    )
