"""The arithmetic of a result: percentiles, spreads, and when ratios count as the same.

Problem: a percentile of few values and a ratio of two noisy medians look more certain than they
are.
Answer: percentiles are values that occurred (nearest rank), and a ratio comes with all ratios of
its parts (rounds, repeats) and says when these differ by more than 15 %.
Invariant: nothing here knows of Spark; equal inputs give equal outputs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

TOLERANCE = 0.15
"""Two ratios of the same comparison that differ by more are not stable."""

PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank: the smallest value with at least this share at or below it."""
    ordered = sorted(values)
    rank = math.ceil(len(ordered) * percent / 100 - 1e-9)
    return ordered[max(rank, 1) - 1]


def weighted_percentile(pairs: Sequence[tuple[float, float]], percent: float) -> float:
    """The same over (value, weight) pairs."""
    ordered = sorted(pairs)
    needed = sum(weight for _, weight in ordered) * percent / 100
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= needed - 1e-9:
            return value
    return ordered[-1][0]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Percentiles, extremes and mean; empty for no values."""
    if not values:
        return {}
    found = {name: percentile(values, percent) for name, percent in PERCENTILES.items()}
    # The usual median, as ratios are of; of few values it differs from the nearest rank.
    found["p50"] = statistics.median(values)
    return found | {"mean": statistics.fmean(values), "min": min(values), "max": max(values)}


def weighted_summary(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    if not pairs:
        return {}
    found = {name: weighted_percentile(pairs, percent) for name, percent in PERCENTILES.items()}
    weight = sum(weight for _, weight in pairs)
    mean = sum(value * share for value, share in pairs) / weight
    values = [value for value, _ in pairs]
    return found | {"mean": mean, "min": min(values), "max": max(values)}


def latency_pairs(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """(latency, how many events it stands for) of an open loop's sampled events."""
    return [
        (latency, row["rows"] / len(row["latency_seconds"]))
        for row in rows
        for latency in row.get("latency_seconds", ())
    ]


def spread(ratios: Sequence[float]) -> dict[str, Any]:
    """How far ratios of the same comparison lie apart."""
    if not ratios:
        return {}
    first = third = ratios[0]
    if len(ratios) > 1:
        first, _, third = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "values": list(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "iqr": [first, third],
        "stable": max(ratios) <= (1 + TOLERANCE) * min(ratios),
    }
