"""`tailrace.window_apply`: a pandas function over the rows of each closed window.

Problem: the function runs in another process, on rows that took a way of their own through the
state; a row lost, doubled or put into the wrong window shows in the function's arguments.
Answer: functions that return their arguments.
Invariant: over a whole run they get every row once, in its window and with its key.
"""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import pytest
from pyspark.sql import functions as F

import tailrace
from tailrace.errors import TailraceError

from .data import WATERMARK, events
from .harness import TAILRACE, Case, check, new_session, run

INPUT = {"events": events(offset=50, flush=True, steps=4)}
SCHEMA = "start TIMESTAMP, end TIMESTAMP, key STRING, ids ARRAY<BIGINT>, total BIGINT, times BIGINT"


def describer():
    """A function that travels by itself: the workers do not know this module."""

    def described(key, rows):
        start, end, name = key
        inside = rows["time"].between(start, end - timedelta(microseconds=1))
        return pd.DataFrame(
            {
                "start": [start],
                "end": [end],
                "key": [name],
                "ids": [sorted(rows["id"].tolist())],
                "total": [int(rows["amount"].sum())],
                "times": [int(inside.sum())],
            }
        )

    return described


def applied(window):
    def build(s):
        marked = s["events"].select("id", "key", "time", "amount").withWatermark("time", WATERMARK)
        return tailrace.window_apply(marked, window(), "key", describer(), SCHEMA)

    return build


def sliding():
    return F.window("time", "40 seconds", "20 seconds")


def test_every_row_is_given_once(spark, tmp_path):
    case = Case("apply", "append", applied(lambda: F.window("time", "20 seconds")), INPUT)
    outcome = run(spark, case, TAILRACE, tmp_path)
    rows = [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows().elements()]
    steps = INPUT["events"].steps
    expected = sorted(row["id"] for step in steps for row in step if row["key"] != "flush")
    assert sorted(number for row in rows for number in row["ids"]) == expected
    assert all(row["times"] == len(row["ids"]) for row in rows)


def test_sliding_windows_as_on_rocksdb(spark, tmp_path):
    check(spark, Case("apply_sliding", "append", applied(sliding), INPUT), tmp_path)


def test_sessions_as_on_rocksdb(spark, tmp_path):
    gap = lambda: F.session_window("time", "5 seconds")  # noqa: E731
    check(spark, Case("apply_sessions", "append", applied(gap), INPUT), tmp_path)


def test_rows_alone(spark, tmp_path):
    def largest(rows):
        return rows.nlargest(1, "amount")[["id", "amount"]]

    def build(s):
        marked = s["events"].select("id", "key", "time", "amount").withWatermark("time", WATERMARK)
        window = F.window("time", "20 seconds")
        return tailrace.window_apply(marked, window, ["key"], largest, "id BIGINT, amount INT")

    outcome = run(spark, Case("rows", "append", build, INPUT), TAILRACE, tmp_path)
    assert outcome.columns == ["id", "amount"]
    assert outcome.rows()


def test_the_rows_are_kept_as_rows(spark):
    session = new_session(spark, TAILRACE, {})
    rows = session.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    frame = tailrace.window_apply(
        rows, F.window("timestamp", "10 seconds"), "value", lambda rows: rows, rows.schema
    )
    assert [use.pattern for use in tailrace.classify(frame)] == ["aligned append"]
    sessions = F.session_window("timestamp", "10 seconds")
    frame = tailrace.window_apply(rows, sessions, "value", lambda rows: rows, rows.schema)
    assert [use.pattern for use in tailrace.classify(frame)] == ["range", "unaligned append"]


@pytest.mark.parametrize(
    ("keys", "func", "message"),
    [
        ("missing", lambda rows: rows, "There is no column missing"),
        ("value", lambda: None, "The function takes 0 arguments"),
    ],
)
def test_bad_arguments_are_refused(spark, keys, func, message):
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    with pytest.raises(TailraceError, match=message):
        tailrace.window_apply(rows, F.window("timestamp", "10 seconds"), keys, func, "value LONG")


def test_a_bounded_frame_is_refused(spark):
    with pytest.raises(TailraceError, match="takes a streaming DataFrame"):
        tailrace.window_apply(
            spark.range(1), F.window("id", "1 second"), "id", lambda rows: rows, "id LONG"
        )
