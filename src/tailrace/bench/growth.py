"""The same work per batch at growing state: `tailrace bench growth`.

Problem: a store that is fast while its state fits a cache may be slow afterwards, and a run that
lets state grow as it goes measures both at once.
Answer: before the first measured batch every key is seen once, so the state has its full size; then
each batch updates the same number of rows of it, uniformly.
Invariant: between two sizes nothing differs but the number of keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tailrace.bench.events import KeyedOptions, parsed
from tailrace.bench.events.numbers import below, zipf
from tailrace.bench.plan import Job
from tailrace.bench.stores import BenchError
from tailrace.bench.workloads import GROWTH_KEYS, WORKLOADS

SIZES = GROWTH_KEYS
ROWS = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreloadedKeys(KeyedOptions):
    """Keyed events whose first `keys` events have each key once."""

    @property
    def preload(self) -> int:
        return self.keys

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        number = f.col("sequence")
        drawn = zipf(number, self.seed, "key", self.keys, self.exponent)
        return events.select(
            f.when(number < self.keys, number).otherwise(drawn).alias("key"),
            below(number, self.seed, "value", self.values).alias("value"),
            "time",
        )


def jobs(
    options: Mapping[str, str], sizes: Sequence[int] = SIZES, rows: int = ROWS
) -> tuple[Job, ...]:
    """One job per size."""
    if not sizes or any(size < 1 for size in sizes):
        raise BenchError(
            "--sizes cannot be empty or below 1.",
            f"It is {','.join(map(str, sizes))}.",
            "Write it like --sizes 100000,1000000.",
        )
    workload = WORKLOADS["update"]
    found = []
    for size in sizes:
        events = parsed(PreloadedKeys(keys=size), options)
        found.append(
            Job(
                workload,
                events,
                workload.query,
                rows,
                preload=size,
                parameters={"state_rows": size},
            )
        )
    return tuple(found)
