"""Runs a workload on a store and compares its output with the reference.

Problem: a fast store that answers wrongly is worth nothing, and an endless stream has no final
result to compare.
Answer: a bounded run. The events numbered from `events` on are a month later than the rest, so
the batch that has the first of them moves the watermark past everything before, and the next
batch closes it. The result of the run then depends on the workload's output mode:

- append: all rows of all batches, without those whose time lies after the silence;
- update: the last row of each key, from the batches before the silence;
- complete: the last batch before the silence.

Invariant: no event is late (options that would make one late are refused), so the result does not
depend on how events are cut into batches, and equals the reference row by row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tailrace.bench.events import EventOptions, batch, changed, stream
from tailrace.bench.events.base import SILENCE_SECONDS, START_MICROS
from tailrace.bench.workloads.base import QueryOptions, Workload
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, tuples
from tailrace.errors import OptionError, TailraceError
from tailrace.session import drain

CLOSING_BATCHES = 2
"""One has the first events after the silence, one sees the watermark that they moved."""
PATIENCE_SECONDS = 600
"""A batch that takes longer is a failure, not a run that never ends."""

_INTERRUPTED_AFTER_SECONDS = 0.1
"""Between the mark and the interrupt; nothing tells when the latter has come."""


class CheckError(TailraceError):
    """A checked run did not come to its end."""


@dataclasses.dataclass(frozen=True)
class Checked:
    """The output of a run, against the expected one."""

    workload: str
    rows: int
    missing: Counter[Row]
    """Rows of the reference that the run did not show."""
    unexpected: Counter[Row]
    """Rows that the run showed and the reference does not have."""
    metrics: frozenset[str]
    """Names of the store's own metrics: they tell which store it was."""

    @property
    def equal(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        if self.equal:
            return f"{self.workload}: {self.rows} rows, equal to the reference"
        some = [f"  missing    {row}" for row in sorted(self.missing)[:5]]
        some += [f"  unexpected {row}" for row in sorted(self.unexpected)[:5]]
        return "\n".join(
            [
                f"{self.workload}: of {self.rows} rows of the reference {self.missing.total()} "
                f"are missing, and {self.unexpected.total()} others were shown",
                *some,
            ]
        )


def expected(
    spark: SparkSession,
    workload: Workload,
    events: int,
    options: EventOptions | None = None,
    query: QueryOptions | None = None,
) -> Counter[Row]:
    """The reference's result for the first `events` events."""
    recorded = Recorded(batch(spark, options or workload.events, events))
    return Counter(workload.reference(recorded, query or workload.query))


def check(
    spark: SparkSession,
    workload: Workload,
    store_conf: Mapping[str, str],
    events: int,
    options: EventOptions | None = None,
    query: QueryOptions | None = None,
    batches: int = 4,
    reference: Counter[Row] | None = None,
) -> Checked:
    """Runs `events` events in `batches` batches with the settings `store_conf`, and compares.

    `reference` is the result of `expected` with the same arguments, if the caller has it already.
    """
    options = options or workload.configured(events // batches if batches else None)
    query = query or workload.query
    _refuse(options, query, events, batches)
    if reference is None:
        reference = expected(spark, workload, events, options, query)
    session = spark.newSession()  # the store is a setting of the session
    for key, value in store_conf.items():
        session.conf.set(key, value)
    source = stream(session, changed(options, end=events), events // batches)
    collector = _Collector(workload, batches)
    metrics = _run(workload.build(source, query), workload, collector)
    shown = Counter(collector.rows)
    return Checked(workload.name, reference.total(), reference - shown, shown - reference, metrics)


def _refuse(options: EventOptions, query: QueryOptions, events: int, batches: int) -> None:
    if batches < 1 or events < batches or events % batches:
        raise OptionError(
            f"{events} events cannot be cut into {batches} equal batches.",
            "A bounded run ends with a full batch.",
            "Choose a number of events that is a multiple of the number of batches.",
        )
    if options.disorder > 1 and options.disorder_seconds >= query.delay:
        raise OptionError(
            f"Events would come up to {options.disorder_seconds:g} s late.",
            f"The watermark's delay is {query.delay} s: which events are dropped then depends on "
            "how they are cut into batches, and there is more than one right result.",
            "Choose a smaller disorder, a higher rate or a longer delay.",
        )


class _Collector:
    """Takes the batches of a run, and holds the query in the last one it needs."""

    def __init__(self, workload: Workload, batches: int) -> None:
        self.workload = workload
        closing = CLOSING_BATCHES if workload.output_mode == "append" and workload.stateful else 0
        self.last = batches + closing - 1
        self.done = threading.Event()
        self.stopped = threading.Event()
        self._appended: list[Row] = []
        self._latest: dict[Row, Row] = {}

    @property
    def rows(self) -> Iterator[Row]:
        return iter(self._appended or self._latest.values())

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = tuples(frame)
        if self.workload.output_mode == "append":
            place = frame.columns.index(self.workload.time)
            silence = START_MICROS + SILENCE_SECONDS * SECOND
            self._appended += [row for row in rows if row[place] < silence]
        elif self.workload.output_mode == "complete":
            self._appended = rows
        else:
            places = [frame.columns.index(name) for name in self.workload.key]
            self._latest.update((tuple(row[place] for place in places), row) for row in rows)
        if number == self.last:
            # The query is stopped here: nothing of it runs that could be interrupted, and Spark
            # finds the batch processed by all stores when this returns.
            self.done.set()
            self.stopped.wait(PATIENCE_SECONDS)


def _run(frame: DataFrame, workload: Workload, collector: _Collector) -> frozenset[str]:
    """Runs a query until the collector has all it needs; returns the store's metrics."""
    with tempfile.TemporaryDirectory(
        prefix="tailrace-check-", ignore_cleanup_errors=True
    ) as temporary:
        query = (
            frame.writeStream.outputMode(workload.output_mode)
            .option("checkpointLocation", (Path(temporary) / "checkpoint").as_uri())
            .foreachBatch(collector)
            .start()
        )
        try:
            _wait(query, collector)
            reports = query.recentProgress
        finally:
            _stop(query, collector)
            # The folder is deleted next: nothing may be on its way into it.
            with contextlib.suppress(TailraceError):
                drain(frame.sparkSession, query=query)
    return frozenset(
        name
        for report in reports
        for operator in report["stateOperators"]
        for name in operator["customMetrics"]
    )


def _wait(query: StreamingQuery, collector: _Collector) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS * (collector.last + 1)
    while not collector.done.wait(0.05):
        if not query.isActive:
            raise CheckError(
                f"Workload {collector.workload.name} failed.",
                str(query.exception() or "The query ended by itself."),
                "Correct the cause. If it lies in tailrace, please report it.",
            )
        if time.monotonic() > deadline:
            raise CheckError(
                f"Workload {collector.workload.name} did not come to its end.",
                f"It was to run {collector.last + 1} batches.",
                "Choose fewer events, or look at what the machine is doing.",
            )


def _stop(query: StreamingQuery, collector: _Collector) -> None:
    """Stops a query that waits in the collector.

    1. `stop` marks the query, interrupts it, and waits for the collector to return: it has to run
       in a thread of its own.
    2. The collector may return once the query is marked and interrupted.
    """

    def stop() -> None:
        with contextlib.suppress(Exception):  # a query that failed has said so already
            query.stop()

    # 1.
    stopper = threading.Thread(target=stop, name="tailrace-check-stop")
    stopper.start()
    # 2.
    while query.isActive and stopper.is_alive():
        time.sleep(0.01)
    time.sleep(_INTERRUPTED_AFTER_SECONDS)
    collector.stopped.set()
    stopper.join()
