"""The driver's side of the gate that a query stands at (engine/src/tailrace/bench/Gate.scala).

Problem: the runner must let exactly one batch of one query through, and know when it is over.
Answer: `admit` gives the next batch its rows; `wait` returns once that batch was committed.
Invariant: a query that is not admitted sleeps: it costs no CPU and keeps its state loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace import _jvm
from tailrace.bench.events.base import EventOptions, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "tailrace.bench.GatedSource"


@dataclass(frozen=True)
class Turn:
    """One batch as the gate saw it."""

    end: int
    waited_seconds: float
    seconds: float
    """From the moment the batch was let through until the query asked for the next one."""


class Gate:
    """One gate in the JVM, by its name."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self.admitted = 0
        self._objects: Any = _jvm.engine(spark).classes.bench.Gate
        self._gate = self._objects.create(name)

    def admit(self, rows: int) -> int:
        self.admitted = int(self._gate.admit(rows))
        return self.admitted

    def await_end(self, end: int, check: Callable[[], None], millis: int = 250) -> None:
        """Waits for the end of a batch; `check` is called again and again, and may raise."""
        while not self._gate.awaitDone(end, millis):
            check()

    def wait(self, end: int, check: Callable[[], None], millis: int = 250) -> Turn:
        """The same for a batch that this gate has let through; returns its times."""
        self.await_end(end, check, millis)
        waited, took = str(self._gate.turn(end)).split()
        return Turn(end, int(waited) / 1e9, int(took) / 1e9)

    def close(self) -> None:
        self._objects.remove(self.name)


@dataclass(frozen=True)
class GatedEvents(Source):
    """Events of a workload whose numbers come through a gate."""

    gate: str = ""

    def numbers(self) -> DataFrame:
        return gated_numbers(self.spark, self.gate, self.partitions).select("value")


def gated_numbers(spark: SparkSession, gate: str, partitions: int) -> DataFrame:
    """The columns of rate-micro-batch: `timestamp` and `value`."""
    reader = spark.readStream.format(FORMAT).option("gate", gate)
    return reader.option("numPartitions", partitions).load()


def gated_events(spark: SparkSession, options: EventOptions, gate: str, parts: int) -> GatedEvents:
    return GatedEvents(spark, options, None, 0, parts, gate)
