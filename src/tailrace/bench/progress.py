"""Spark's report of a batch, in the words of a result.

Problem: a progress report has its times in one place, its state in another, by operator.
Answer: one flat row per batch: times in milliseconds, state figures summed over the operators.
Invariant: the time that a query slept at its gate is in no duration. It lies within Spark's
`latestOffset`, and so in its `triggerExecution`, and is taken off both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

PHASES = {
    "trigger": "triggerExecution",
    "add_batch": "addBatch",
    "wal": "walCommit",
    "commit": "commitOffsets",
    "planning": "queryPlanning",
    "latest_offset": "latestOffset",
    "get_batch": "getBatch",
}
STATE_TIMES = {
    "state_update": "allUpdatesTimeMs",
    "state_removal": "allRemovalsTimeMs",
    "state_commit": "commitTimeMs",
}
"""Summed over operators and partitions: they can be longer than the batch."""


def batch_row(report: Mapping[str, Any], waited_millis: float) -> dict[str, Any]:
    """The parts of one batch."""
    durations: Mapping[str, int] = report["durationMs"]
    phases: dict[str, float] = {name: durations.get(key, 0) for name, key in PHASES.items()}
    for name in ("trigger", "latest_offset"):
        phases[name] = round(max(0.0, phases[name] - waited_millis), 3)
    operators = report["stateOperators"]
    for name, key in STATE_TIMES.items():
        phases[name] = sum(operator.get(key, 0) for operator in operators)
    custom: Counter[str] = Counter()
    for operator in operators:
        custom.update(operator.get("customMetrics") or {})
    return {
        "batch_id": report["batchId"],
        "phases_ms": phases,
        "state": {
            "rows": sum(operator["numRowsTotal"] for operator in operators),
            "rows_updated": sum(operator["numRowsUpdated"] for operator in operators),
            "rows_removed": sum(operator.get("numRowsRemoved", 0) for operator in operators),
            "memory_bytes": sum(operator["memoryUsedBytes"] for operator in operators),
        },
        "custom_metrics": dict(custom),
    }


def digest(report: Mapping[str, Any], name: str) -> list[int] | None:
    """Number of result rows and their digest, where the query was observed."""
    observed = (report.get("observedMetrics") or {}).get(name)
    if observed is None:
        return None
    return [int(observed["rows"]), int(observed["digest"] or 0)]
