"""Eviction looks at the rows that are due, and at no others.

Problem: Spark's operators find rows behind the watermark by scanning their whole state in every
batch; a store that lets them do so gives right results and is slow, which no comparison of results
can show.
Answer: a large state of which a little expires in each batch, and the number of rows that the
store's scans looked at (`tailraceScannedRows`).
Invariant: over a whole run the scans look at as many rows as are removed; with the reading of plans
switched off, at many times as many.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from .data import Stream, moment
from .harness import JOIN_FORMAT_CONF, TAILRACE, Case, check, collecting_sink, run

SCHEMA = "key STRING, time TIMESTAMP"
DELAY_SECONDS = 3_600
ROWS = 1_500


def stream(prefix: str = "key") -> Stream:
    """Each step moves the watermark on by a minute or two; most rows stay."""
    early = [{"key": f"{prefix}{i}", "time": moment(i * 2.0)} for i in range(ROWS)]
    later = [
        [{"key": f"{prefix}-late{step}", "time": moment(DELAY_SECONDS + 100.0 * step)}]
        for step in range(1, 4)
    ]
    return Stream(SCHEMA, [early, *later], seed=0)


EVENTS = {"events": stream()}


def marked(s, name="events"):
    return s[name].withWatermark("time", f"{DELAY_SECONDS} seconds")


def counted(window):
    return lambda s: marked(s).groupBy(window, "key").count()


def timed_out(s):
    def expire(key, frames, state):
        import pandas as pd

        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"key": [key[0]], "rows": [-1]})
            return
        rows = sum(len(frame) for frame in frames)
        state.update((rows,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 150_000)
        yield pd.DataFrame({"key": [key[0]], "rows": [rows]})

    return (
        marked(s)
        .groupBy("key")
        .applyInPandasWithState(
            expire,
            "key STRING, rows BIGINT",
            "rows BIGINT",
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    )


def joined(s):
    left = marked(s, "left").select("key", F.window("time", "10 seconds").alias("window"))
    right = marked(s, "right").select("key", F.window("time", "10 seconds").alias("window"))
    return left.join(right, ["key", "window"])


def joined_by_range(s):
    left = marked(s, "left")
    right = marked(s, "right").toDF("other", "at")
    return left.join(
        right, F.expr("key = other AND at BETWEEN time AND time + INTERVAL 20 SECONDS"), "leftOuter"
    )


CASES = [
    Case("append", "append", lambda s: counted(F.window("time", "10 seconds"))(s), EVENTS),
    Case("update", "update", lambda s: counted(F.window("time", "10 seconds"))(s), EVENTS),
    Case(
        "sliding", "append",
        lambda s: counted(F.window("time", "20 seconds", "10 seconds"))(s), EVENTS,
    ),
    Case("plain_time", "update", lambda s: marked(s).groupBy("time", "key").count(), EVENTS),
    Case("session", "append", lambda s: counted(F.session_window("time", "5 seconds"))(s), EVENTS),
    Case("deduplication", "append", lambda s: marked(s).dropDuplicates(["key", "time"]), EVENTS),
    Case(
        "within_watermark", "append",
        lambda s: s["events"].withWatermark("time", "30 minutes")
        .dropDuplicatesWithinWatermark(["key"]), EVENTS,
    ),
    *(
        Case(
            f"{name}_join_format_{version}", "append", build,
            {"left": stream(), "right": stream()}, conf={JOIN_FORMAT_CONF: str(version)},
            needs_column_families=version > 2,
        )
        for name, build in (("window", joined), ("range", joined_by_range))
        for version in (2, 3)
    ),
]  # fmt: skip


def seen(outcome):
    """Rows that were live after the first batch, removed, and looked at."""
    operators = [report["stateOperators"][0] for report in outcome.progress]
    return (
        max(operator["numRowsTotal"] for operator in operators),
        sum(operator["numRowsRemoved"] for operator in operators),
        sum(operator["customMetrics"]["tailraceScannedRows"] for operator in operators),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_what_is_due_is_looked_at(spark, case, tmp_path):
    live, removed, scanned = seen(run(spark, case, TAILRACE, tmp_path))
    assert live > ROWS / 2
    assert 0 < removed < live / 2
    # A join by a range of time looks at the row that is due, and at its key in the other family.
    assert scanned <= (2 * removed if case.name.startswith("range_join") else removed)


def test_only_groups_that_time_out_are_looked_at(spark, tmp_path):
    case = Case("timeouts", "append", timed_out, EVENTS)
    outcome = run(spark, case, TAILRACE, tmp_path)
    timeouts = sum(
        count
        for row, count in outcome.rows().items()
        if dict(zip(outcome.columns, row, strict=True))["rows"] == -1
    )
    live, _, scanned = seen(outcome)
    assert live >= ROWS
    assert timeouts > 0
    assert scanned == timeouts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_are_those_of_rocksdb(spark, case, tmp_path):
    check(spark, case, tmp_path)


def test_without_the_plan_everything_is_looked_at(spark, tmp_path):
    """The tests above can fail: without the uses read from the plan, the store scans."""

    def unknowing(outcome):
        collect = collecting_sink(outcome)

        def sink(batch, batch_id):
            batch.sparkSession.sparkContext.setLocalProperty("tailrace.operator.0", "")
            collect(batch, batch_id)

        return sink

    live, removed, scanned = seen(run(spark, CASES[0], TAILRACE, tmp_path, sink_for=unknowing))
    assert 0 < removed < live / 2
    assert scanned > live
