"""`tailrace.explain` and `classify`: the classifier's reading of a plan, in words.

Problem: how a store is laid out and evicted follows from a plan that users do not see, and an
operator that is not known must not be taken for a known one.
Answer: every stateful operator of Spark, explained before it runs and after.
Invariant: an operator that is not known is called unknown, works, and evicts nothing by itself.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from support.counting import eventually

import tailrace
from tailrace.errors import TailraceError

from .harness import TAILRACE, new_session


@pytest.fixture
def events(spark):
    session = new_session(spark, TAILRACE, {})
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    return rows.withWatermark("timestamp", "1 minute").withColumnRenamed("timestamp", "time")


def windows(events):
    return events.groupBy(F.window("time", "10 seconds"))


def sessions(events):
    return events.groupBy(F.session_window("time", "10 seconds"), "value").count()


def other(events):
    return events.select(F.col("value").alias("number"), F.col("time").alias("at"))


def by_range(events):
    near = "value = number AND at BETWEEN time AND time + INTERVAL 5 SECONDS"
    return events.join(other(events), F.expr(near))


def by_window(events):
    left = events.select("value", F.window("time", "10 seconds").alias("window"))
    right = events.select("value", F.window("time", "10 seconds").alias("window"))
    return left.join(right, ["value", "window"])


def groups(timeout):
    def build(events):
        def keep(key, frames, state):
            yield from frames

        return events.groupBy("value").applyInPandasWithState(
            keep, "value LONG, time TIMESTAMP", "seen LONG", "append", timeout
        )

    return build


FRAMES = {
    "window": (lambda e: windows(e).count(), "append", ["windowed update"]),
    "window_update": (lambda e: windows(e).count(), "update", ["windowed update"]),
    "window_complete": (lambda e: windows(e).count(), "complete", ["update"]),
    "median": (lambda e: windows(e).agg(F.median("value")), "append", ["aligned append"]),
    "total": (lambda e: e.groupBy("value").count(), "update", ["update"]),
    "session": (sessions, "append", ["range"]),
    "dedup": (lambda e: e.dropDuplicates(["value", "time"]), "append", ["windowed update"]),
    "dedup_for_ever": (lambda e: e.dropDuplicates(["value"]), "append", ["update"]),
    "dedup_within": (
        lambda e: e.dropDuplicatesWithinWatermark(["value"]), "append", ["windowed update"],
    ),
    "timeout": (groups(GroupStateTimeout.EventTimeTimeout), "append", ["windowed update"]),
    "clock": (groups(GroupStateTimeout.ProcessingTimeTimeout), "append", ["windowed update"]),
    "no_timeout": (groups(GroupStateTimeout.NoTimeout), "append", ["update"]),
    "range_join": (by_range, "append", ["update", "windowed update"] * 2),
    "window_join": (by_window, "append", ["windowed update", "update"] * 2),
    "limit": (lambda e: e.limit(5), "append", ["unknown"]),
    "two": (
        lambda e: windows(e).count().groupBy(F.window_time("window")).count(),
        "append",
        ["windowed update"] * 2,
    ),
    "none": (lambda e: e.where("value > 3"), "append", []),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_the_pattern_of_a_frame(events, name):
    build, mode, patterns = FRAMES[name]
    uses = tailrace.classify(build(events), mode)
    assert [use.pattern for use in uses] == patterns
    assert all(use.reason and use.kind for use in uses)


def test_it_is_printed_for_people(events, capsys):
    tailrace.explain(windows(events).count())
    head, line, row, told = capsys.readouterr().out.splitlines()
    assert head.split() == ["operator", "store", "pattern", "evicts", "looks", "ahead", "because"]
    assert set(line) == {"-", " "}
    assert row.startswith("0 aggregation  default  windowed update  what is due  in the task")
    assert row.endswith("the key has the event time window")
    assert told.startswith("operator 0 looks ahead in the task: ")


def test_nothing_stateful_is_said_so(events, capsys):
    tailrace.explain(events)
    assert "No stateful operator" in capsys.readouterr().out


def test_a_running_query_shows_what_its_stores_were_told(events, tmp_path):
    query = (
        events.limit(25)
        .writeStream.format("noop")
        .option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        .start()
    )
    try:
        eventually(lambda: query.recentProgress, "a batch")
        (use,) = tailrace.classify(query)
        assert (use.operator, use.pattern) == (0, "unknown")
        assert query.lastProgress["stateOperators"][0]["numRowsTotal"] == 1
    finally:
        query.stop()


def test_what_cannot_be_explained_is_refused(spark):
    with pytest.raises(TailraceError, match="not a streaming one"):
        tailrace.classify(spark.range(3))
    with pytest.raises(TailraceError, match="There is no output mode 'overwrite'"):
        tailrace.classify(spark.range(3), "overwrite")
