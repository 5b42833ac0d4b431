"""How much two settings matter that FlowKV has figures for: `tailrace bench sensitivity`.

Problem: the share of lists that one read takes along, and how much dead space a log may hold, are
numbers that were chosen; a good default is one around which little changes.
Answer: state that is several times larger than its memory, and the same query once per value.
Invariant: between two runs of a plot nothing differs but the setting on its axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tailrace.bench.events import parsed
from tailrace.bench.growth import PreloadedKeys
from tailrace.bench.plan import Job, job
from tailrace.bench.workloads import WORKLOADS

READ_RATIOS = (0.0, 0.005, 0.02, 0.1, 0.5)
AMPLIFICATIONS = (1.1, 1.25, 1.5, 2.0, 3.0)

SESSION_MEMORY = "48m"
"""For sessions of some 1.5 million rows, 50 MB: most are in files when they are read."""
UPDATE_KEYS = 1_000_000
UPDATE_MEMORY = "96m"
"""A million keys take 16 MB of slots and 56 MB of records; a batch needs some more."""


def jobs(options: Mapping[str, str], rows: int = 50_000) -> tuple[Job, ...]:
    """One job per value of each setting."""
    sessions = job(WORKLOADS["session-median"], options, rows, None, 0.0)
    found = [
        dataclasses.replace(
            sessions,
            parameters={"read_batch_ratio": ratio},
            options={"memory_limit": SESSION_MEMORY, "read_batch_ratio": ratio},
        )
        for ratio in READ_RATIOS
    ]
    updates = WORKLOADS["update"]
    events = parsed(PreloadedKeys(keys=UPDATE_KEYS), options)
    found += [
        Job(
            updates,
            events,
            updates.query,
            rows,
            preload=UPDATE_KEYS,
            parameters={"space_amplification": bound},
            options={"memory_limit": UPDATE_MEMORY, "max_space_amplification": bound},
        )
        for bound in AMPLIFICATIONS
    ]
    return tuple(found)
