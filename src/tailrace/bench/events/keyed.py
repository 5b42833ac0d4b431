"""Keys and values: the plainest stream, whose state has the size one asks for.

Problem: in the published workloads rate, key space and state size depend on each other.
Answer: (key, value), with keys uniform or by zipf's law over a space of any size, which may move on
with the events: then each key comes for a while, and never again.
Invariant: there are at most `keys` different keys at a time.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events.base import EventOptions, option
from tailrace.bench.events.numbers import below, zipf


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyedOptions(EventOptions):
    """The table `event`."""

    TABLES: ClassVar[tuple[str, ...]] = ("event",)

    rate: int = option(100_000, "Events per second of event time.", least=1, most=1_000_000)
    keys: int = option(1_000_000, "Different keys.", least=1)
    values: int = option(1_000_000, "Different values.", least=1)
    visits: int = option(0, "Events of a key before it is gone; 0: keys are never gone.")
    exponent: float = option(0.0, "Exponent of zipf's law for keys; 0 is uniform.", most=10)

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        s = F.col("sequence")
        key = zipf(s, self.seed, "key", self.keys, self.exponent)
        if self.visits:
            key = key + F.expr(f"sequence div {self.visits}")
        return events.select(
            key.alias("key"),
            below(s, self.seed, "value", self.values).alias("value"),
            "time",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedOptions(EventOptions):
    """The table `event`, in which every key comes twice, with the same time, and never again."""

    TABLES: ClassVar[tuple[str, ...]] = ("event",)

    rate: int = option(100_000, "Events per second of event time.", least=1, most=1_000_000)

    def columns(self, table: str, events: DataFrame) -> DataFrame:  # noqa: ARG002 - has one
        first = f"(sequence - pmod(sequence, 2)) * 1000000 div {self.rate}"
        apart = F.expr(f"sequence * 1000000 div {self.rate} - {first}")
        micros = F.unix_micros("time") - apart  # the time of the pair's first event
        pair = F.expr("sequence div 2")
        return events.select(
            # Neighbours in time are not neighbours in the state.
            (below(pair, self.seed, "key", 1 << 20) * (1 << 40) + pair).alias("key"),
            F.timestamp_micros(micros).alias("time"),
        )
