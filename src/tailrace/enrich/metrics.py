"""Counts of an enrichment: how often a record was there when a row needed it.

Problem: the reads are done in Python workers, and the user is on the driver.
Answer: counters in the workers, added up by a Spark accumulator when a task ends.
Invariant: every look-up is counted once: as used before, prefetched, late or a miss. A look-up is
one key of one Arrow batch, however many rows have it. Tasks that fail are not counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of all tasks that have ended."""

    rows: int = 0
    """Rows with a key."""
    used_before: int = 0
    """Look-ups that found a record which an earlier look-up had used."""
    prefetched: int = 0
    """Look-ups that found a record which was read for them, ahead of them."""
    late: int = 0
    """Look-ups that waited for a read which had begun ahead of them."""
    misses: int = 0
    """Look-ups whose read began with them."""
    missing: int = 0
    """Look-ups of keys that the table does not have."""
    waited_micros: int = 0
    """How long rows waited for the table."""
    requests: int = 0
    """Requests that were answered."""
    keys_read: int = 0
    """Keys in these requests."""
    retries: int = 0
    """Requests that were made again after an error."""
    bytes_read: int = 0
    """Bytes of the records that came, as they are kept."""
    evicted: int = 0
    """Records that were dropped because the cache was full."""
    expired: int = 0
    """Records that were read again because they were too old."""

    @property
    def lookups(self) -> int:
        return self.used_before + self.prefetched + self.late + self.misses


class _Sum:
    """Adds counts by name. It is an AccumulatorParam, but to import that is to import Spark."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:  # noqa: ARG002 - Spark's signature
        return {}

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: dict[str, int], value2: Mapping[str, int]
    ) -> dict[str, int]:
        for name, count in value2.items():
            value1[name] = value1.get(name, 0) + count
        return value1


class Metrics:
    """Give one to `tailrace.enrich`, and read it while the query runs, or after."""

    def __init__(self, spark: SparkSession) -> None:
        adding: Any = _Sum()
        self._sum: Accumulator[dict[str, int]] = spark.sparkContext.accumulator({}, adding)

    @property
    def accumulator(self) -> Accumulator[dict[str, int]]:
        """The part that travels to the workers."""
        return self._sum

    def counts(self) -> Counts:
        return Counts(**self._sum.value)
