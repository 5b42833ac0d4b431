"""MiSA's comparison: `tailrace bench misa`, its figures 9 to 14.

Problem: the paper's figures need an arrival rate, a trigger and a remote checkpoint all at once.
Answer: LR2, LR4, CM1 and CM2 in an open loop, at 1,500 and 2,500 records a second, normally
distributed around the mean, with a trigger of 3 s (figures 9 to 13) and 5 s (figure 14).
Invariant: all stores see the same arrivals; `--scale` divides every time alike, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tailrace.bench.plan import Job, job
from tailrace.bench.workloads import SUITES, WORKLOADS

RATES = (1_500, 2_500)
TRIGGERS = (3.0,)
PARTITIONS = 8
SPREAD = 0.1
"""The paper gives no variance; a tenth of the mean is our choice."""

REMOTE = "rtt=1ms,bandwidth=1gbit"
"""The paper's network is 1 Gbit/s; the round trip of a local network is our choice."""

NOTE = (
    "As in the paper: vanilla Spark on RocksDB, zStream (a deadline bounds the size of a batch) "
    "and asynchronous checkpoint only. Databricks' asynchronous checkpoint is not open source and "
    "Spark's asyncProgressTrackingEnabled is refused for stateful queries, so that baseline is "
    "RocksDB on a file system of the bench that uploads in the background."
)


def jobs(
    options: Mapping[str, str],
    names: Sequence[str] = SUITES["misa"],
    rates: Sequence[int] = RATES,
    triggers: Sequence[float] = TRIGGERS,
    scale: float = 1.0,
) -> tuple[Job, ...]:
    """All combinations. With scale 3 the trigger is a third, and windows stay as they are."""
    found = []
    for name in names:
        for rate in rates:
            for trigger in triggers:
                seconds = trigger / scale
                made = job(WORKLOADS[name], options, None, rate, seconds)
                parameters = {"rate": f"{rate:,}/s", "trigger": f"trigger {seconds:g} s"}
                rows = max(1, round(rate * seconds))
                found.append(replace(made, rows=rows, spread=SPREAD, parameters=parameters))
    return tuple(found)
