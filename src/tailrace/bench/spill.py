"""State three times as large as its memory: `tailrace bench --suite spill`.

Problem: a query whose state outgrows its memory must go on, at a steady pace, and keep to its space
on disk; an average over a run that fits would hide all three.
Answer: one query for each way of using state, with a memory limit of a third of it. It takes about
25 batches until the state has its size, and 45 with sessions: --warmup 46.
Invariant: the limit depends on the number of rows, so that a small run spills as a large one does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tailrace.bench.plan import Job, job
from tailrace.bench.workloads import SUITES, WORKLOADS

ROWS = 200_000

MEMORY: Mapping[str, float] = {
    "update": 128,
    "spill-update": 144,
    "spill-windows": 225,
    "spill-dedup": 210,
    "spill-sessions": 112,
}
"""Megabytes at 200,000 rows a batch: a third of what the state takes where all of it is in memory
(dedup 665, windows 690, sessions 345 and spill-update 430 MB, with its slots); half of it for
update, whose records are small.

What cannot be spilled has to fit: 16 bytes of slots a key (62 MB for four million), the changes of
two batches, what one batch uses, and an eighth that records may not use.
"""
KEYS = {"update": 4_000_000}
LEAST_MEGABYTES = 8


def jobs(
    names: Sequence[str],
    options: Mapping[str, str],
    rows: int | None = None,
    seed: int | None = None,
    *,
    contestants: int = 1,
    cold_io: str = "buffered",
    cold_dir: str | None = None,
    megabytes: int | None = None,
) -> tuple[Job, ...]:
    """One job for each workload of the suite, or those that were named.

    The memory is the process's: each of the contestants of one kind gets as much, a part of its
    state or as many megabytes as were asked for.
    """
    size = rows if rows is not None else ROWS
    found = []
    for name in names or SUITES["spill"]:
        scale = size / ROWS
        keys = max(1, int(getattr(WORKLOADS[name].events, "keys", 0) * scale))
        if name in KEYS:
            keys = max(1, int(KEYS[name] * scale))
        limit = megabytes or max(LEAST_MEGABYTES, int(MEMORY[name] * scale))
        files = "" if cold_io == "buffered" else ", files past the page cache"
        place = {} if cold_dir is None else {"cold_dir": cold_dir}
        files += "" if cold_dir is None else f", files in {cold_dir}"
        made = job(WORKLOADS[name], options, size, keys=keys, seed=seed)
        found.append(
            dataclasses.replace(
                made,
                parameters={"memory_limit": f"{limit} MB of memory{files}"},
                options={
                    "memory_limit": f"{limit * contestants}m",
                    "cold_io": cold_io,
                    **place,
                },
            )
        )
    return tuple(found)
