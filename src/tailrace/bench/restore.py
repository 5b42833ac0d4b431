"""How long a query needs to come back: `tailrace bench restore`.

Problem: state that is fast to update may be slow to load, and a restart is when users wait.
Answer: each store first builds a state of the same keys and stops. Then, in turns, each query is
started again from its checkpoint and runs one batch; the time counts from `start()` until that
batch is committed. A restart in the same JVM has nothing warm but the code: a new run of a query
gets new stores, which load from the checkpoint.
Invariant: the number of state rows after every restart is the number of keys; a store that does
not count its rows is made to once, after its last measured restart.

The same with next to no state is measured beside it: the difference is the load.
A store that opens its files and reads them only when a key is asked for shows that in the first
batch, so the size of that batch is a choice (`--rows`): small for the bare load, large for back to
work.

After a crash there is one thing more to do: the batch that was under way runs again. A crash is a
copy of the checkpoint, taken in the middle of a batch, commit log first; the time counts from
`start()` on the copy until that batch is committed.
"""

from __future__ import annotations

import contextlib
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
from tailrace.bench.meters import Meters, OtherWork
from tailrace.bench.screen import Screen
from tailrace.bench.stores import COUNTING, BenchError, Store, session_for
from tailrace.bench.workloads import WORKLOADS
from tailrace.session import drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tailrace.cli._local import LocalSession

KIND = "tailrace-restore"
SMALLEST = 1_000
SETTLING = 40
"""Batches of updates on top of all keys. tailrace is told to write a snapshot after 20 at most, so
that what a restart has to replay is that of some such batches: not by chance a part of the keys."""
SNAPSHOT_AFTER = 20
SETTLED_FOR = 0.5
SETTLED_BELOW = 0.3
MOST_SETTLING = 60.0
"""A restart begins when the process took less than this part of a core for half a second."""
CRASHES = 5
"""So often a crash is tried that should happen in the middle of a batch."""
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
    cpu_seconds: list[float] = field(default_factory=list)
    crash_seconds: list[float] = field(default_factory=list)
    load_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._gate = Gate(self.spark, self.folder.name)
        self._meters = Meters(self.spark)

    def _settle(self) -> None:
        """Waits until the process does next to nothing: work that a store does behind its batches
        is not to be in the way of the next contestant."""
        deadline = time.monotonic() + MOST_SETTLING
        before = self._meters.sample().jvm_cpu
        while time.monotonic() < deadline:
            time.sleep(SETTLED_FOR)
            now = self._meters.sample().jvm_cpu
            if now - before < SETTLED_FOR * SETTLED_BELOW:
                break
            before = now

    def build(self) -> None:
        """Every key once, then some batches of updates, as a query that has run for a while."""
        query = self._start()
        left = self.keys
        while left > 0:
            size = min(left, PRELOAD_ROWS)
            self._let_through(query, size)
            left -= size
        for _ in range(SETTLING):
            self._let_through(query, self.rows)
        query.stop()
        drain(self.spark, query=query)

    def restart(self) -> float:
        """Starts the query, runs one batch and stops it again."""
        cpu = self._meters.sample().jvm_cpu
        started = time.monotonic()
        query = self._start()
        self._let_through(query, self.rows)
        took = time.monotonic() - started
        self.cpu_seconds.append(self._meters.sample().jvm_cpu - cpu)
        progress: Any = query._jsq.lastProgress()
        state = json.loads(progress.json())["stateOperators"][0]
        query.stop()
        drain(self.spark, query=query)
        self._settle()
        if self.store.counts:
            self._compare(state["numRowsTotal"])
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

    def verify(self) -> None:
        """Has a store that does not count its rows do so for once: nothing is measured here."""
        if self.store.counts:
            return
        query = self._start(counting=True)
        self._let_through(query, self.rows)
        progress: Any = query._jsq.lastProgress()
        query.stop()
        drain(self.spark, query=query)
        self._compare(json.loads(progress.json())["stateOperators"][0]["numRowsTotal"])

    def _compare(self, rows: int) -> None:
        if rows != self.keys:
            raise BenchError(
                f"{self.store.title} came back with {rows:,} rows of state.",
                f"{self.keys:,} keys were put into it.",
                "This is a defect of the store or of the bench: please report it.",
            )

    def crash(self) -> Path:
        """Copies the checkpoint as after a crash in the middle of a batch."""
        left = self.folder.with_name(f"{self.folder.name}-crash")
        query = self._start()
        self._let_through(query, self.rows)
        for _ in range(CRASHES):
            drain(self.spark, query=query)
            number = max(_logged(self.folder / "commits")) + 1
            end = self._gate.admit(self.rows)
            while number not in _logged(self.folder / "offsets"):
                self._check(query)
                time.sleep(0.001)
            self._copy(left)
            self._gate.wait(end, lambda: self._check(query))
            if number not in _logged(left / "commits"):
                break
            shutil.rmtree(left)  # the batch was over before the copy began
        query.stop()
        drain(self.spark, query=query)
        if not left.exists():
            raise BenchError(
                f"The crash of {self.store.title} came too late {CRASHES} times.",
                "The batch was over before the checkpoint was copied.",
                "Give it more to do: a larger --rows.",
            )
        return left

    def _copy(self, left: Path) -> None:
        """The logs first, so that all files that their copies need are copied."""
        for part in ("commits", "offsets"):
            shutil.copytree(self.folder / part, left / part, copy_function=_copy_if_there)
        shutil.copytree(
            self.folder,
            left,
            dirs_exist_ok=True,
            ignore=lambda _, names: {"commits", "offsets"} & set(names),
            copy_function=_copy_if_there,
        )

    def restart_after(self, crash: Path) -> float:
        """Starts the query on a copy of the crashed checkpoint, until its batch is committed."""
        folder = crash.with_name(f"{crash.name}-{len(self.crash_seconds)}")
        shutil.copytree(crash, folder)
        gate = Gate(self.spark, folder.name)
        started = time.monotonic()
        query = self._start(folder)
        gate.await_end(gate.admit(self._gate.admitted), lambda: self._check(query))
        took = time.monotonic() - started
        query.stop()
        drain(self.spark, query=query)
        gate.close()
        self._settle()
        shutil.rmtree(folder, ignore_errors=True)
        self.crash_seconds.append(took)
        return took

    def close(self) -> None:
        self._gate.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, folder: Path | None = None, counting: bool = False) -> StreamingQuery:
        folder = folder or self.folder
        session = session_for(self.spark, self.store, self.confs)
        if counting:
            session.conf.set(COUNTING, "true")
        events = PreloadedKeys(keys=self.keys)
        source = gated_events(session, events, folder.name, self.partitions)
        workload = WORKLOADS["update"]
        return (
            workload.build(source, workload.query)
            .writeStream.format("noop")
            .outputMode(workload.output_mode)
            .option("checkpointLocation", folder.as_uri())
            .start()
        )

    def _let_through(self, query: StreamingQuery, rows: int) -> None:
        self._gate.wait(self._gate.admit(rows), lambda: self._check(query))

    def _check(self, query: StreamingQuery) -> None:
        if not query.isActive:
            raise BenchError(
                f"The query on {self.store.title} failed.",
                str(query.exception()),
                "Use fewer --keys or a larger --memory.",
            )


def _logged(log: Path) -> set[int]:
    return (
        {int(path.name) for path in log.iterdir() if path.name.isdigit()} if log.is_dir() else set()
    )


def _copy_if_there(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # a temporary file that was renamed meanwhile
        shutil.copy2(source, target)


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

    confs = tailrace.confs(max_deltas=SNAPSHOT_AFTER)
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
    others = OtherWork()
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
                    entrant.cpu_seconds.clear()
                    entrant.load_seconds.clear()
        for entrant in entrants:
            entrant.verify()
        crashes = [entrant.crash() for entrant in entrants]
        for repeat in range(repeats + 1):
            for entrant, crash in zip(entrants, crashes, strict=True):
                took = entrant.restart_after(crash)
                screen.say(f"{size:,} keys after a crash, {entrant.store.title}: {took:.2f} s")
                if repeat == 0:
                    entrant.crash_seconds.clear()
        found["sizes"][str(size)] = {
            entrant.store.name: {
                "title": entrant.store.title,
                "seconds": entrant.seconds,
                "median_seconds": statistics.median(entrant.seconds),
                "cpu_seconds": [round(value, 3) for value in entrant.cpu_seconds],
                "cpu_median_seconds": round(statistics.median(entrant.cpu_seconds), 3),
                "crash_seconds": entrant.crash_seconds,
                "crash_median_seconds": statistics.median(entrant.crash_seconds),
                "load_seconds_summed_over_tasks": entrant.load_seconds,
            }
            for entrant in entrants
        }
        for entrant in entrants:
            entrant.close()
    found["other_work_share"] = others.share()
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
            crash = measured["crash_seconds"]
            lines.append(
                f"  {measured['title']:22} {measured['median_seconds']:6.2f} s   ({spread})"
                f"   CPU {measured['cpu_median_seconds']:5.2f} s"
                f"   after a crash {measured['crash_median_seconds']:6.2f} s"
                f"   ({min(crash):.2f} to {max(crash):.2f})"
            )
    return "\n".join(lines)
