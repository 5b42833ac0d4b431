"""Results of the bench as a run would give them, with times that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.bench import result
from tailrace.bench.plan import Job, Plan
from tailrace.bench.runner import Outcome
from tailrace.bench.stores import EVERY

STORES = ("rocksdb", "rocksdb-changelog", "tailrace", "none")
ENVIRONMENT = {
    "processor": "A <Processor>",
    "cores": 4,
    "memory_bytes": 2**34,
    "load_before": 0.5,
    "os": "Linux 6",
    "architecture": "x86_64",
    "java": "OpenJDK 17",
    "java_max_heap_bytes": 2**32,
    "python": "3.11",
    "spark": "4.3.0",
    "tailrace": "0.1.0",
    "engine": "0123456789ab",
}


def batch(number: int, round_number: int, seconds: float, latency: bool) -> dict[str, Any]:
    names = ("trigger", "add_batch", "wal", "commit", "planning", "latest_offset", "get_batch",
             "state_update", "state_removal", "state_commit")  # fmt: skip
    row: dict[str, Any] = {
        "repeat": 0,
        "round": round_number,
        "order": number,
        "rows": 1000,
        "seconds": seconds,
        "batch_id": number,
        "phases_ms": dict.fromkeys(names, 100.0 * seconds),
        "state": {"rows": 500, "rows_updated": 9, "rows_removed": 0, "memory_bytes": 12_345},
        "custom_metrics": {},
        "cpu_seconds": {"jvm": seconds, "python": 0.01, "workers": 0.0},
        "gc": {"count": 1, "millis": 5},
        "memory": {"heap_peak_bytes": 10**8, "off_heap_bytes": 10**7, "rss_peak_bytes": None},
        "checkpoint": {"files": 4, "bytes": 4321},
    }
    if latency:
        row["latency_seconds"] = [seconds * share for share in (2.0, 1.5, 1.1)]
    return row


def made(
    *jobs: Job, unstable: bool = False, names: Sequence[str] = STORES, **values: Any
) -> dict[str, Any]:
    """Each store takes a second less than the one before it, the last one a second."""
    stores = tuple(EVERY[name] for name in names)
    plan = Plan(jobs, stores, batches=4, rounds=2, **values)
    outcomes = []
    for one in jobs:
        outcome = Outcome(one)
        for place, name in enumerate(names):
            second = 3.0 if unstable and name == "tailrace" else 1.0
            times = [len(names) - place + 0.01 * n for n in range(2)]
            outcome.rows[name] = [
                batch(4 * place + n, n // 2, time * (second if n > 1 else 1), one.rate is not None)
                for n, time in enumerate(times * 2)
            ]
        outcomes.append(outcome)
    return result.assemble(plan, dict(ENVIRONMENT), outcomes, interrupted=False)
