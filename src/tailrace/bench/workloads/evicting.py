"""State that expires all the time: sessions, deduplication, a join by a range of time.

Problem: an eviction costs a scan of all rows that stay, unless the store knows which are due;
each operator evicts in a way of its own.
Answer: one query per operator, with about ten seconds of live state and a second of event time in a
batch, so that a tenth of the state is evicted with every batch.
Invariant: no result depends on where batches begin.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tailrace.bench.events import KeyedOptions, PairedOptions, Source
from tailrace.bench.workloads.base import Pattern, QueryOptions, Workload, seconds
from tailrace.bench.workloads.recorded import SECOND, Recorded, Row, sessions


def _marked(source: Source, query: QueryOptions) -> DataFrame:
    return source.table("event").withWatermark("time", seconds(query.delay))


def _per_session(source: Source, query: QueryOptions, name: str, shown: Column) -> DataFrame:
    return (
        _marked(source, query)
        .groupBy(F.session_window("time", seconds(query.gap)).alias("session"), "key")
        .agg(shown.alias(name))
        .select("session.start", "session.end", "key", name)
    )


def _sessions(source: Source, query: QueryOptions) -> DataFrame:
    return _per_session(source, query, "count", F.count("*"))


def _session_median(source: Source, query: QueryOptions) -> DataFrame:
    """Of quarters: the middle of two of them is exact, however it is computed."""
    return _per_session(source, query, "median", F.median(F.col("value") / F.lit(4.0)))


def _deduplicated(source: Source, query: QueryOptions) -> DataFrame:
    return _marked(source, query).dropDuplicates(["key", "time"]).select("time", "key")


def _deduplicated_within(source: Source, query: QueryOptions) -> DataFrame:
    return _marked(source, query).dropDuplicatesWithinWatermark(["key"]).select("time", "key")


def _joined(source: Source, query: QueryOptions) -> DataFrame:
    """Even values with the odd ones of the same key that follow within a window's length."""
    marked = _marked(source, query)
    even = marked.where("value % 2 = 0").select("key", "time", "value")
    odd = marked.where("value % 2 = 1").toDF("other", "answer", "answered")
    within = f"answered BETWEEN time AND time + INTERVAL {query.window} SECONDS"
    return even.join(odd, F.expr(f"key = other AND {within}")).select(
        "time", "key", "value", "answer"
    )


def _sessions_of(
    recorded: Recorded, query: QueryOptions
) -> Iterator[tuple[int, int, int, list[int]]]:
    """Start, end, key and values of each session."""
    events: dict[int, list[Row]] = defaultdict(list)
    for time, key, value in recorded.rows("event", "time", "key", "value"):
        events[key].append((time, value))
    for key, rows in events.items():
        for start, end, members in sessions(rows, query.gap):
            yield start, end, key, [value for _, value in members]


def _expected_sessions(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, end, key, values in _sessions_of(recorded, query):
        yield start, end, key, len(values)


def _expected_session_median(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    for start, end, key, values in _sessions_of(recorded, query):
        yield start, end, key, statistics.median(value / 4.0 for value in values)


def _expected_deduplicated(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:  # noqa: ARG001
    return iter(set(recorded.rows("event", "time", "key")))


def _expected_joined(recorded: Recorded, query: QueryOptions) -> Iterator[Row]:
    odd: dict[int, list[tuple[int, int]]] = defaultdict(list)
    rows = recorded.rows("event", "time", "key", "value")
    for time, key, value in rows:
        if value % 2 == 1:
            odd[key].append((time, value))
    for time, key, value in rows:
        if value % 2 == 0:
            for answered, answer in odd[key]:
                if time <= answered <= time + query.window * SECOND:
                    yield time, key, value, answer


SESSIONS = Workload(
    name="sessions",
    title="Sessions: a count of each key's sessions, shown when they end",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=KeyedOptions(),
    build=_sessions,
    output_mode="append",
    reference=_expected_sessions,
    query=QueryOptions(gap=6),
    time="start",
    seconds_per_batch=1,
)
SESSION_MEDIAN = Workload(
    name="session-median",
    title="Session-median: the median of each key's sessions, shown when they end",
    patterns=(Pattern.UNALIGNED_APPEND,),
    events=KeyedOptions(keys=20_000, rate=50_000),
    build=_session_median,
    output_mode="append",
    reference=_expected_session_median,
    query=QueryOptions(gap=2),
    time="start",
    rows_per_batch=50_000,
    seconds_per_batch=1,
)
DEDUPLICATION = Workload(
    name="dedup",
    title="Deduplication: each key and time once",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=KeyedOptions(),
    build=_deduplicated,
    output_mode="append",
    reference=_expected_deduplicated,
    query=QueryOptions(delay=10),
    time="time",
    seconds_per_batch=1,
)
DEDUPLICATION_WITHIN = Workload(
    name="dedup-within",
    title="Deduplication within the watermark: each key once, though it comes twice",
    patterns=(Pattern.READ_MODIFY_WRITE,),
    events=PairedOptions(),
    build=_deduplicated_within,
    output_mode="append",
    reference=_expected_deduplicated,
    query=QueryOptions(delay=10),
    time="time",
    seconds_per_batch=1,
)
JOIN = Workload(
    name="join",
    title="Join: rows of two streams with the same key, within some seconds",
    patterns=(Pattern.JOIN,),
    events=KeyedOptions(),
    build=_joined,
    output_mode="append",
    reference=_expected_joined,
    query=QueryOptions(window=10),
    time="time",
    seconds_per_batch=1,
)
WORKLOADS = (SESSIONS, SESSION_MEDIAN, DEDUPLICATION, DEDUPLICATION_WITHIN, JOIN)
