"""Cluster monitoring: events of the tasks of a data centre.

Problem: the original input is a trace of some hundred gigabytes.
Answer: rows with the trace's columns, drawn uniformly.
Invariant: cpu, ram and disk are multiples of 1/1024, so their sums are exact and do not depend on
the order of addition. A row has about 65 bytes.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import below

RESOLUTION = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterOptions(EventOptions):
    """The table `task`."""

    TABLES: ClassVar[tuple[str, ...]] = ("task",)

    rate: int = option(1_500, "Events per second of event time.", least=1, most=1_000_000)
    jobs: int = option(10_000, "Jobs that run.", least=1)
    machines: int = option(12_500, "Machines.", least=1)
    categories: int = option(4, "Scheduling classes.", least=1)
    event_types: int = option(9, "Kinds of events; CM2 keeps one of them.", least=2)

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        def drawn(what: str, bound: int) -> Column:
            return below(F.col("sequence"), self.seed, what, bound)

        def resource(what: str) -> Column:
            return (drawn(what, RESOLUTION) / RESOLUTION).alias(what)

        return events.select(
            "time",
            drawn("job", self.jobs).alias("job"),
            drawn("task", 1000).cast("int").alias("task"),
            drawn("machine", self.machines).alias("machine"),
            drawn("event type", self.event_types).cast("int").alias("event_type"),
            drawn("user", 1000).cast("int").alias("user"),
            drawn("category", self.categories).cast("int").alias("category"),
            drawn("priority", 12).cast("int").alias("priority"),
            resource("cpu"),
            resource("ram"),
            resource("disk"),
        )
