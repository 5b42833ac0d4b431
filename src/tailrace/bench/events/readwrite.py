"""ReadWrite: every event reads and writes the state of its id, and nothing else is computed.

Problem: the cost of state alone is hard to see behind a query's other work.
Answer: (id, padding), with ids uniform over a large space.
Invariant: with the defaults the state is 1.1 GB when every id has come.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import padding, zipf


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadWriteOptions(EventOptions):
    """The table `event`."""

    TABLES: ClassVar[tuple[str, ...]] = ("event",)

    keys: int = option(10_000_000, "Different ids.", least=1)
    padding_bytes: int = option(100, "Text beside each id.", most=4096)
    exponent: float = option(0.0, "Exponent of zipf's law for ids; 0 is uniform.", most=10)

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        s = F.col("sequence")
        return events.select(
            zipf(s, self.seed, "id", self.keys, self.exponent).alias("id"),
            padding(s, self.seed, "padding", self.padding_bytes).alias("padding"),
            "time",
        )
