"""The enrichment in a Python worker: batches come in, records go out, and keys are read ahead.

Problem: a worker sees the rows of a task as a few Arrow batches. If it asked for the keys of each
when its turn comes, every batch would wait for a round trip.
Answer: it takes some batches before their turn and has their keys read while earlier ones are
handed on. Cache and connections belong to the process, which Spark uses again for later tasks and
later batches of the stream.
Invariant: for every row that comes in one record goes out, in the same order.
"""

from __future__ import annotations

import dataclasses
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql.types import StructType

from tailrace.enrich.keys import Columns, Keys
from tailrace.enrich.manager import Expected, PrefetchManager
from tailrace.enrich.settings import Settings
from tailrace.enrich.source import Source

Batch = tuple[pa.Array, ...]
"""The columns of the key, then that of the event time if there is one."""

MOST_MANAGERS = 8
"""How many enrichments a process remembers. The one that was not used for longest is closed."""

_managers: OrderedDict[str, PrefetchManager] = OrderedDict()
_owner = 0


@dataclasses.dataclass(frozen=True)
class Job:
    """All that a worker has to know."""

    identity: str
    """Equal for two jobs that can share a cache: the same source, keys, columns and settings."""
    source: Source
    on: tuple[str, ...]
    columns: StructType
    timed: bool
    zone: str
    settings: Settings


def function(
    job: Job, accumulator: Accumulator[dict[str, int]] | None
) -> Callable[[Iterator[Batch]], Iterator[pa.Array]]:
    """The function that Spark calls for every task, with the batches of the key columns."""

    def find(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        # Spark gives a column as it is if it is the only one.
        columns = (batch if isinstance(batch, tuple) else (batch,) for batch in batches)
        return look_up(job, columns, accumulator.add if accumulator else lambda _: None)

    return find


def look_up(
    job: Job, batches: Iterable[Batch], add: Callable[[dict[str, int]], None]
) -> Iterator[pa.Array]:
    """The records of all batches of a task. `add` gets the counts at the end of the task."""
    manager = _manager(job)
    try:
        yield from enriched(job, batches, manager)
    finally:
        if manager.broken:
            if _managers.get(job.identity) is manager:
                del _managers[job.identity]
            manager.close()
        add(manager.report())


def enriched(job: Job, batches: Iterable[Batch], manager: PrefetchManager) -> Iterator[pa.Array]:
    """The same with a manager that is there already.

    1. Take batches, and have their keys read: one, and as many ahead of it as there is room for.
    2. Hand on the oldest one, as soon as its records are there.
    """
    columns = Columns(job.columns)
    coming = iter(batches)
    waiting: deque[tuple[Keys, Expected]] = deque()
    ahead = job.settings.look_ahead
    while True:
        # 1.
        while not waiting or (
            len(waiting) <= ahead and manager.has_room(sum(it.reading for _, it in waiting))
        ):
            batch = next(coming, None)
            if batch is None:
                ahead = -1
                break
            keys = Keys.of(batch[: len(job.on)], batch[len(job.on)] if job.timed else None)
            waiting.append((keys, manager.expect(keys.distinct, keys.times, ahead > 0)))
        if not waiting:
            return
        # 2.
        keys, expected = waiting.popleft()
        manager.count(rows=keys.count)
        yield columns.of(keys, manager.take(expected))


def _manager(job: Job) -> PrefetchManager:
    global _owner
    if _owner != os.getpid():  # a fork has the memory of its parent, but not its threads
        _managers.clear()
        _owner = os.getpid()
    manager = _managers.get(job.identity)
    if manager is None:
        manager = PrefetchManager(job.source, job.on, job.columns, job.zone, job.settings)
        _managers[job.identity] = manager
        while len(_managers) > MOST_MANAGERS:
            _managers.popitem(last=False)[1].close()
    _managers.move_to_end(job.identity)
    return manager
