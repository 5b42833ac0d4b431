"""Aggregates that need all rows of a window, kept as rows until it closes.

Problem: the operator that keeps them is ours, in the place of seven of Spark's; every way in which
the two could differ shows only in results.
Answer: medians, percentiles, lists and modes, alone and beside ordinary aggregates, with filters,
over all kinds of windows and input, compared with RocksDB batch by batch.
Invariant: the same rows in the same batches, the same number of groups in the state; and the
comparison is known to have used the operator, because the classifier says so.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

import tailrace
from tailrace._diagnosis import diagnose

from .data import WATERMARK, events
from .harness import (
    ROCKSDB,
    TAILRACE,
    Case,
    await_end,
    check,
    new_session,
    parametrize,
    run,
    start_query,
    write_steps,
)

OPTION = "spark.sql.streaming.stateStore.tailrace.holistic"
COMMIT = "spark.sql.streaming.stateStore.tailrace.commit"

ORDERLY = {"events": events(offset=40, flush=True)}
LATE = {"events": events(offset=41, late=0.25)}
JUMPS = {"events": events(offset=42, late=0.1, jumps={1: 3_600, 3: 86_400}, flush=True)}
GAPS = {"events": events(offset=43, steps=5, empty_steps=(1, 3), flush=True)}


def per_window(window, *keys):
    def grouped(s):
        return s["events"].withWatermark("time", WATERMARK).groupBy(window(), *keys)

    return grouped


def tumbling():
    return F.window("time", "20 seconds")


def sliding():
    return F.window("time", "60 seconds", "20 seconds")


def session():
    return F.session_window("time", "5 seconds")


def dynamic_session():
    return F.session_window("time", F.when(F.col("flag"), "3 seconds").otherwise("9 seconds"))


def many(grouped):
    """Holistic aggregates among others, one with a filter, one over a grouping column."""
    return lambda s: grouped(s).agg(
        F.median("amount").alias("median"),
        F.count("*").alias("rows"),
        F.sum("price").alias("price"),
        F.percentile("ratio", [0.1, 0.9]).alias("deciles"),
        F.expr("sort_array(collect_list(id) FILTER (WHERE flag))").alias("flagged"),
        F.max("key").alias("key_again"),
        F.min("place").alias("place"),
    )


def lists(grouped):
    return lambda s: grouped(s).agg(F.sort_array(F.collect_list("tags")).alias("tags"))


def modes(grouped):
    return lambda s: grouped(s).agg(F.mode("amount", deterministic=True).alias("mode"))


CASES = [
    Case("many_tumbling", "append", many(per_window(tumbling, "key")), ORDERLY, reference="append"),
    Case("many_sliding", "append", many(per_window(sliding, "key")), LATE),
    Case("many_no_key", "append", many(per_window(tumbling)), JUMPS),
    Case("lists", "append", lists(per_window(sliding, "place")), GAPS),
    Case("modes", "append", modes(per_window(tumbling, "flag")), ORDERLY),
    Case(
        "expression_key", "append",
        lambda s: many(per_window(tumbling, F.substring("key", 1, 1).alias("initial")))(s), LATE,
    ),
    Case("session_many", "append", many(per_window(session, "key")), ORDERLY, reference="append"),
    Case("session_late", "append", many(per_window(session, "flag")), LATE),
    Case("session_jumps", "append", modes(per_window(session, "place")), JUMPS),
    Case("session_gaps", "append", lists(per_window(dynamic_session, "key")), GAPS),
    Case("session_restarts", "append", many(per_window(dynamic_session, "key")), LATE)
    .restarted_after_each_step(),
    Case(
        "session_merged_before_the_exchange", "append", many(per_window(session, "key")), ORDERLY,
        conf={"spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": "true"},
    ),
    replace(
        Case("checkpoint_ids", "append", many(per_window(tumbling, "key")), ORDERLY),
        conf={"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"},
        needs_checkpoint_ids=True,
    ),
]  # fmt: skip


@parametrize(CASES)
def test_holistic(spark, case, tmp_path):
    check(spark, case, tmp_path)


def patterns_of(spark, case, directory, conf):
    """Runs a case in two lives, the second with other settings; the patterns of each life."""
    first, second = conf
    found = []
    for steps, setting in (((0, 2), first), ((2, case.steps), second)):
        session = new_session(spark, TAILRACE, {OPTION: setting})
        write_steps(case, directory, *steps)
        query = start_query(session, case, directory, lambda batch, _: batch.collect() and None)
        await_end(query)
        found.append(tailrace.classify(query)[0].pattern)
    return found


@pytest.mark.parametrize(
    ("settings", "patterns"),
    [
        (("rows", "buffers"), ["aligned append"] * 2),
        (("buffers", "rows"), ["windowed update"] * 2),
    ],
)
def test_a_query_keeps_what_its_first_batch_chose(spark, tmp_path, settings, patterns):
    assert patterns_of(spark, CASES[0], tmp_path, settings) == patterns
    noted = (tmp_path / "checkpoint" / "state" / "tailrace").glob("0.*")
    assert [path.name for path in noted] == [f"0.{settings[0]}"]


def life(spark, directory, first, end, conf):
    """Runs the first case on some steps of its input; returns its pattern."""
    session = new_session(spark, TAILRACE, conf)
    write_steps(CASES[0], directory, first, end)
    query = start_query(session, CASES[0], directory, lambda batch, _: batch.collect() and None)
    await_end(query)
    return tailrace.classify(query)[0].pattern


@pytest.mark.parametrize("commit", ["async", "sync"])
def test_a_lost_note_is_named_and_an_empty_file_will_do(spark, tmp_path, commit):
    """The state files say that they hold rows, so that the missing note is noticed."""
    conf = {OPTION: "rows", COMMIT: commit}
    note = tmp_path / "checkpoint" / "state" / "tailrace" / "0.rows"
    assert life(spark, tmp_path, 0, 2, conf) == "aligned append"
    note.unlink()
    with pytest.raises(Exception, match=r"The note \S+/0\.rows is missing") as caught:
        life(spark, tmp_path, 2, 3, conf)
    assert "MissingNote" in diagnose(caught.value).cause
    assert "make an empty file of that name" in str(caught.value)
    note.touch()
    assert life(spark, tmp_path, 3, CASES[0].steps, conf) == "aligned append"


def test_a_checkpoint_without_a_note_that_holds_buffers_goes_on(spark, tmp_path):
    """Before there was a note for buffers, having none said so."""
    assert life(spark, tmp_path, 0, 2, {OPTION: "buffers"}) == "windowed update"
    (tmp_path / "checkpoint" / "state" / "tailrace" / "0.buffers").unlink()
    assert life(spark, tmp_path, 2, CASES[0].steps, {OPTION: "rows"}) == "windowed update"


def test_other_modes_and_aggregates_stay_as_they_are(spark):
    session = new_session(spark, TAILRACE, {})
    rows = session.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    windows = rows.groupBy(F.window("timestamp", "10 seconds"))
    assert pattern(windows.agg(F.median("value"))) == "aligned append"
    assert pattern(windows.agg(F.median("value")), "update") == "windowed update"
    digit = (F.col("value") % 10).alias("digit")
    sessions = rows.groupBy(F.session_window("timestamp", "10 seconds"), digit)
    found = [use.pattern for use in tailrace.classify(sessions.agg(F.median("value")))]
    assert found == ["range", "unaligned append"]
    assert pattern(sessions.agg(F.sum("value"))) == "range"
    assert pattern(windows.agg(F.sum("value"))) == "windowed update"
    assert pattern(rows.groupBy("value").agg(F.median("value")), "complete") == "update"
    rocksdb = new_session(spark, ROCKSDB, {})
    rows = rocksdb.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    medians = rows.groupBy(F.window("timestamp", "10 seconds")).agg(F.median("value"))
    assert pattern(medians) == "windowed update"


def pattern(frame, mode="append"):
    return tailrace.classify(frame, mode)[0].pattern


def test_a_wrong_choice_is_refused(spark):
    session = new_session(spark, TAILRACE, {OPTION: "columns"})
    rows = session.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    medians = rows.groupBy(F.window("timestamp", "10 seconds")).agg(F.median("value"))
    with pytest.raises(Exception, match="rows, buffers"):
        tailrace.classify(medians)


def test_every_row_is_read_once(spark, tmp_path):
    """Many batches into one window: a batch's reads and writes do not grow."""
    hours = per_window(lambda: F.window("time", "1 hour"))
    case = Case(
        "one_window", "append", lambda s: hours(s).agg(F.median("amount")),
        {"events": events(offset=44, steps=6)},
    )  # fmt: skip
    outcome = run(spark, case, TAILRACE, tmp_path)
    metrics = [report["stateOperators"][0]["customMetrics"] for report in outcome.progress]
    rows = sum(len(step) for step in case.streams["events"].steps)
    assert sum(metric["tailraceEntriesWritten"] for metric in metrics) <= rows
    assert sum(metric["tailraceGetCount"] for metric in metrics) == 0
