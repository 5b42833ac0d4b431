"""Keys as users have them, for state that is larger than its memory.

Problem: a key of eight bytes makes records that are hardly larger than the references that stay in
memory when they are spilled; the gain of spilling shows with keys of the usual length.
Answer: queries of the other files over customers' addresses of 65 characters: an update, windows, a
deduplication, medians of sessions.
Invariant: a customer is the text of a key, so the references are those of the other files with
their keys replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import KeyedOptions, Source
from tailrace.bench.workloads import evicting, keyed
from tailrace.bench.workloads.base import QueryOptions, Workload
from tailrace.bench.workloads.recorded import Recorded, Row

CUSTOMER = "https://shop.example.com/europe/customers/%016x/orders"


def customer(key: int) -> str:
    return CUSTOMER % key


class _Customers:
    """A source whose table `event` has customers for keys."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def table(self, name: str) -> DataFrame:
        return self._source.table(name).withColumn("key", F.format_string(CUSTOMER, "key"))


def _over_customers(
    build: Callable[[Source, QueryOptions], DataFrame],
) -> Callable[[Source, QueryOptions], DataFrame]:
    return lambda source, query: build(_Customers(source), query)  # type: ignore[arg-type]


def _of_customers(
    reference: Callable[[Recorded, QueryOptions], Iterable[Row]], place: int
) -> Callable[[Recorded, QueryOptions], Iterator[Row]]:
    def expected(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
        for row in reference(recorded, query):
            yield (*row[:place], customer(row[place]), *row[place + 1 :])

    return expected


def _spilling(
    workload: Workload, name: str, title: str, place: int, events: KeyedOptions, query: QueryOptions
) -> Workload:
    """The workload with customers for keys; `place` is the key's column in its result."""
    return dataclasses.replace(
        workload,
        name=name,
        title=title,
        events=events,
        query=query,
        build=_over_customers(workload.build),
        reference=_of_customers(workload.reference, place),
        rows_per_batch=200_000,
    )


SPILL_UPDATE = _spilling(
    keyed.UPDATE, "spill-update", "Spilled update: count and maximum of each customer", 0,
    KeyedOptions(keys=3_000_000), QueryOptions(),
)  # fmt: skip
SPILL_WINDOWS = _spilling(
    keyed.WINDOW_APPEND, "spill-windows", "Spilled windows: a count of each customer per window", 2,
    KeyedOptions(keys=1_000_000), QueryOptions(window=1, slide=1, delay=20),
)  # fmt: skip
SPILL_DEDUP = _spilling(
    evicting.DEDUPLICATION, "spill-dedup", "Spilled deduplication: each customer and time once", 1,
    KeyedOptions(keys=1_000_000), QueryOptions(delay=20),
)  # fmt: skip
SPILL_SESSIONS = _spilling(
    evicting.SESSION_MEDIAN, "spill-sessions", "Spilled sessions: the median of each session", 2,
    KeyedOptions(keys=5_000, visits=200), QueryOptions(gap=2, delay=40),
)  # fmt: skip
WORKLOADS = (SPILL_UPDATE, SPILL_WINDOWS, SPILL_DEDUP, SPILL_SESSIONS)
