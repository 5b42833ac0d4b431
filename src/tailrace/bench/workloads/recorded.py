"""Events in Python, for the references.

Problem: a reference has a value only if it shares no code with the query that it checks, yet it
must see the same events.
Answer: events come from Spark as plain tuples, and windows and sessions are defined here again in
plain Python.
Invariant: times are integers, in microseconds since 1970.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from tailrace.bench.events import Source

Row = tuple[Any, ...]
SECOND = 1_000_000


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The events of a bounded run."""

    source: Source

    def rows(self, table: str, *columns: str) -> list[Row]:
        """The rows of a stream's table, in no particular order."""
        return tuples(self.source.table(table).select(*columns))

    def static(self, table: str, *columns: str) -> list[Row]:
        """The rows of a bounded table."""
        return tuples(self.source.static(table).select(*columns))


def tuples(frame: DataFrame) -> list[Row]:
    """All rows of a DataFrame without nested columns; timestamps become microseconds."""

    def plain(name: str, is_time: bool) -> Column:
        return F.unix_micros(F.col(name)).alias(name) if is_time else F.col(name)

    columns = [
        plain(field.name, isinstance(field.dataType, TimestampType)) for field in frame.schema
    ]
    table = frame.select(*columns).toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def window_starts(time: int, size: int, slide: int | None = None) -> Iterator[int]:
    """The starts of all windows [start, start + size) that hold a time; sizes in seconds."""
    length, step = size * SECOND, (slide or size) * SECOND
    start = time - time % step
    while start > time - length:
        yield start
        start -= step


def sessions(events: Iterable[Row], gap: int) -> Iterator[tuple[int, int, list[Row]]]:
    """Start, end and events of each session; the time comes first in an event.

    A session ends `gap` seconds after its last event, and an event at that very moment is still
    part of it: this is how Spark does it.
    """
    start, end, members = 0, 0, list[Row]()
    for event in sorted(events):
        if members and event[0] > end:
            yield start, end, members
            members = []
        if not members:
            start = event[0]
        members.append(event)
        end = event[0] + gap * SECOND
    if members:
        yield start, end, members
