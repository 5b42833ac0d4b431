"""Linear Road: vehicles report where they are and how fast.

Problem: the original input is a file of a traffic simulation, hours long.
Answer: a vehicle has a fixed motorway and direction and moves one segment every half minute, so
its position follows from the time; which vehicle reports is drawn.
Invariant: two reports of a vehicle agree on motorway and direction. A row has about 65 bytes.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import below

SEGMENTS = 100
SECONDS_PER_SEGMENT = 30
FEET_PER_SEGMENT = 5280


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearRoadOptions(EventOptions):
    """The table `position`."""

    TABLES: ClassVar[tuple[str, ...]] = ("position",)

    rate: int = option(1_500, "Reports per second of event time.", least=1, most=1_000_000)
    vehicles: int = option(
        45_000, "Vehicles on the road. At the default rate each reports every 30 s.", least=1
    )
    highways: int = option(10, "Motorways.", least=1)

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        s, vehicle = F.col("sequence"), F.col("vehicle")
        drawn = events.select(
            "sequence", "time", below(s, self.seed, "vehicle", self.vehicles).alias("vehicle")
        )
        moved = F.expr(f"unix_seconds(time) div {SECONDS_PER_SEGMENT}")
        segment = F.pmod(below(vehicle, self.seed, "entry", SEGMENTS) + moved, F.lit(SEGMENTS))
        within = below(s, self.seed, "position", FEET_PER_SEGMENT)
        return drawn.select(
            "time",
            "vehicle",
            below(s, self.seed, "speed", 101).cast("int").alias("speed"),
            below(vehicle, self.seed, "highway", self.highways).cast("int").alias("highway"),
            below(s, self.seed, "lane", 5).cast("int").alias("lane"),
            below(vehicle, self.seed, "direction", 2).cast("int").alias("direction"),
            segment.cast("int").alias("segment"),
            (segment * FEET_PER_SEGMENT + within).alias("position"),
        )
