"""The definition of a workload.

Problem: a runner, a test and a report all need to know the same about a query: its events, how it
is built, how its output is to be read, and the expected result.
Answer: one frozen `Workload` per query.
Invariant: `build` uses tables of its source only, so it runs on a stream and on a bounded table
alike; `reference` gives the final result of `build`, in plain Python and without Spark's help.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Literal

from pyspark.sql import DataFrame

from tailrace.bench.events import EventOptions, Source, changed
from tailrace.bench.workloads.recorded import Recorded, Row
from tailrace.errors import OptionError

OutputMode = Literal["append", "update", "complete"]
"""Spark's output modes, as a writer's `outputMode` takes them."""


class Pattern(str, Enum):
    """How a query uses its state, in FlowKV's words, and two patterns that FlowKV does not have."""

    READ_MODIFY_WRITE = "update"
    ALIGNED_APPEND = "aligned append"
    UNALIGNED_APPEND = "unaligned append"
    JOIN = "join"
    STATELESS = "read-only"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The sizes in a query, in whole seconds of event time. A query uses some of them."""

    window: int = 10
    """Length of a window; how far apart rows of an interval join may be."""
    slide: int = 2
    """From the start of a sliding window to that of the next."""
    gap: int = 10
    """A session ends when so long nothing came."""
    delay: int = 4
    """Delay of the watermark."""
    top: int = 10
    """How many of the best are kept."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "delay" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise OptionError(
                    f"Option {field.name} does not take the value {value!r}.",
                    f"It is an integer from {least}.",
                    f"Choose such a value, or leave it out for {field.default!r}.",
                )
        if self.slide > self.window:
            raise OptionError(
                f"A window of {self.window} s cannot slide by {self.slide} s.",
                "Events between two windows would be in none.",
                "Choose a slide that is not longer than the window.",
            )


def seconds(number: int) -> str:
    """A duration as Spark's functions take it."""
    return f"{number} seconds"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A query, its events, and its expected result."""

    name: str
    title: str
    patterns: tuple[Pattern, ...]
    """One for each stateful operator, in the order of the data."""
    events: EventOptions
    build: Callable[[Source, QueryOptions], DataFrame]
    output_mode: OutputMode
    reference: Callable[[Recorded, QueryOptions], Iterable[Row]]
    """The rows of the result; a timestamp is in microseconds since 1970."""
    query: QueryOptions = dataclasses.field(default_factory=QueryOptions)
    key: tuple[str, ...] = ()
    """In update mode: the columns by which a later row replaces an earlier one."""
    time: str = ""
    """In append mode: a column with a time that belongs to the row (the start of its window)."""
    rows_per_batch: int = 100_000
    """The default size of a batch."""
    seconds_per_batch: int | None = None
    """If set, the rate follows from the size of a batch: event time moves so far in each."""

    @property
    def stateful(self) -> bool:
        return self.patterns != (Pattern.STATELESS,)

    @property
    def pattern(self) -> str:
        return ", ".join(pattern.value for pattern in self.patterns)

    def configured(self, rows_per_batch: int | None = None, **values: Any) -> EventOptions:
        """The workload's events for batches of this size, with options replaced by `values`."""
        if self.seconds_per_batch is not None and "rate" not in values:
            rows = rows_per_batch or self.rows_per_batch
            values["rate"] = max(1, rows // self.seconds_per_batch)
        return changed(self.events, **values)
