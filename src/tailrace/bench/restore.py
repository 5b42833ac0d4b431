"""How long a query needs to come back: `tailrace bench restore`.

Problem: state that is fast to update may be slow to load, and a restart is when somebody waits.
Answer: each store first builds a state of the same keys and stops. Then, in turns, each query is
started again from its checkpoint and runs one batch; the time counts from `start()` until that
batch is committed. A restart in the same JVM has nothing warm but the code: a new run of a query
gets new stores, which load from the checkpoint.
Invariant: the number of state rows after every restart is the number of keys.

The same with next to no state is measured beside it: what is left of the difference is the load.
A store that opens its files and reads them only when a key is asked for shows that in the first
batch, so the size of that batch is a choice (`--rows`): small for the bare load, large for back to
work.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.bench.entrant import PRELOAD_ROWS
from tailrace.bench.environment import environment
from tailrace.bench.gate import Gate, gated_events
from tailrace.bench.growth import PreloadedKeys
from tailrace.bench.screen import Screen
from tailrace.bench.stores import BenchError, Store, session_for
from tailrace.bench.workloads import WORKLOADS
from tailrace.session import drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tailrace.cli._local import LocalSession

KIND = "tailrace-restore"
SMALLEST = 1_000
LOAD_METRICS = {"tailrace": "tailraceLoadTime", "rocksdb": "rocksdbLoadLatency"}


@dataclass
class Restartable:
    """One store's query, which can be stopped and started again on its checkpoint."""

    spark: SparkSession
    store: Store
    keys: int
    rows: int
    partitions: int
    folder: Path
    confs: dict[str, str]
    seconds: list[float] = field(default_factory=list)
    load_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._gate = Gate(self.spark, self.folder.name)

    def build(self) -> None:
        """Every key once, then some batches of updates, as a query that has run for a while."""
        query = self._start()
        left = self.keys
        while left > 0:
            size = min(left, PRELOAD_ROWS)
            self._let_through(query, size)
            left -= size
        for _ in range(5):
            self._let_through(query, self.rows)
        query.stop()
        drain(self.spark, query=query)

    def restart(self) -> float:
        """Starts the query, runs one batch and stops it again."""
        started = time.monotonic()
        query = self._start()
        self._let_through(query, self.rows)
        took = time.monotonic() - started
        progress: Any = query._jsq.lastProgress()
        state = json.loads(progress.json())["stateOperators"][0]
        query.stop()
        drain(self.spark, query=query)
        if state["numRowsTotal"] != self.keys:
            raise BenchError(
                f"{self.store.title} came back with {state['numRowsTotal']:,} rows of state.",
                f"{self.keys:,} keys were put into it.",
                "This is a defect of the store or of the bench: please report it.",
            )
        self.seconds.append(took)
        loads = [
            value
            for prefix, name in LOAD_METRICS.items()
            if self.store.name.startswith(prefix)
            for key, value in state["customMetrics"].items()
            if key == name
        ]
        if loads:
            self.load_seconds.append(loads[0] / 1000)
        return took

    def close(self) -> None:
        self._gate.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> StreamingQuery:
        session = session_for(self.spark, self.store, self.confs)
        events = PreloadedKeys(keys=self.keys)
        source = gated_events(session, events, self.folder.name, self.partitions)
        workload = WORKLOADS["update"]
        return (
            workload.build(source, workload.query)
            .writeStream.format("noop")
            .outputMode(workload.output_mode)
            .option("checkpointLocation", self.folder.as_uri())
            .start()
        )

    def _let_through(self, query: StreamingQuery, rows: int) -> None:
        def check() -> None:
            if not query.isActive:
                raise BenchError(
                    f"The query on {self.store.title} failed.",
                    str(query.exception()),
                    "Use fewer --keys or a larger --memory.",
                )

        self._gate.wait(self._gate.admit(rows), check)


def run(
    stores: Sequence[Store],
    keys: int,
    rows: int,
    repeats: int,
    cores: int,
    memory: str,
    screen: Screen,
) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    import tailrace
    from tailrace.cli._local import local_session

    confs = tailrace.confs()
    with local_session("tailrace bench restore", cores, memory) as session:
        return measure(session, stores, (SMALLEST, keys), rows, repeats, cores, confs, screen)


def measure(
    session: LocalSession,
    stores: Sequence[Store],
    sizes: Sequence[int],
    rows: int,
    repeats: int,
    partitions: int,
    confs: dict[str, str],
    screen: Screen,
) -> dict[str, Any]:
    """The same in a session that is there already."""
    found: dict[str, Any] = {
        "kind": KIND,
        "environment": environment(session.spark),
        "rows_per_batch": rows,
        "repeats": repeats,
        "sizes": {},
    }
    for size in sizes:
        entrants = []
        for number, store in enumerate(stores):
            screen.say(f"building {size:,} keys on {store.title}")
            folder = session.directory / f"restore-{size}-{number}"
            entrant = Restartable(session.spark, store, size, rows, partitions, folder, confs)
            entrant.build()
            entrants.append(entrant)
        for repeat in range(repeats + 1):
            for entrant in entrants:
                took = entrant.restart()
                screen.say(f"{size:,} keys, {entrant.store.title}: {took:.2f} s")
                if repeat == 0:  # the first time pays for code that was never run before
                    entrant.seconds.clear()
                    entrant.load_seconds.clear()
        found["sizes"][str(size)] = {
            entrant.store.name: {
                "title": entrant.store.title,
                "seconds": entrant.seconds,
                "median_seconds": statistics.median(entrant.seconds),
                "load_seconds_summed_over_tasks": entrant.load_seconds,
            }
            for entrant in entrants
        }
        for entrant in entrants:
            entrant.close()
    return found


def conclusion(found: dict[str, Any]) -> str:
    """The result in a few lines."""
    lines = []
    for size, stores in found["sizes"].items():
        lines.append(
            f"{int(size):,} keys, from start() until the first batch of "
            f"{found['rows_per_batch']:,} rows is committed:"
        )
        for measured in stores.values():
            spread = f"{min(measured['seconds']):.2f} to {max(measured['seconds']):.2f}"
            lines.append(
                f"  {measured['title']:20} {measured['median_seconds']:6.2f} s   ({spread})"
            )
    return "\n".join(lines)
