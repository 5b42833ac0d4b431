"""Aggregations over tumbling, sliding and session windows, with watermarks.

Problem: a windowed query's state must be evicted exactly when the watermark passes: a window kept
too long is emitted twice or never, one dropped early loses rows; and a session's state moves from
key to key as sessions merge.
Answer: every window kind in every output mode Spark allows, over orderly streams, streams with rows
behind the watermark, streams whose time jumps, and batches without rows.
Invariant: every batch emits the same rows as on RocksDB and keeps as many rows of state; over
orderly input an append-mode query gives exactly the batch result.
"""

from pyspark.sql import functions as F

from .data import WATERMARK, events
from .harness import Case, check, parametrize


def windowed(window, *keys, watermark=WATERMARK):
    def build(s):
        return (
            s["events"]
            .withWatermark("time", watermark)
            .groupBy(window(), *keys)
            .agg(
                F.count("*").alias("rows"),
                F.sum("amount").alias("amount"),
                F.max("ratio").alias("top"),
            )
        )

    return build


def tumbling():
    return F.window("time", "20 seconds")


def sliding():
    return F.window("time", "60 seconds", "20 seconds")


def session():
    return F.session_window("time", "5 seconds")


def dynamic_session():
    return F.session_window("time", F.when(F.col("flag"), "3 seconds").otherwise("9 seconds"))


def holistic(s):
    return (
        s["events"]
        .withWatermark("time", WATERMARK)
        .groupBy(F.window("time", "40 seconds"), "flag")
        .agg(
            F.median("amount").alias("median"),
            F.sort_array(F.collect_list("id")).alias("identifiers"),
            F.approx_count_distinct("key").alias("keys"),
        )
    )


def session_lists(s):
    return (
        s["events"]
        .withWatermark("time", WATERMARK)
        .groupBy(session(), "key")
        .agg(F.sort_array(F.collect_list("id")).alias("identifiers"))
    )


ORDERLY = {"events": events(offset=10, flush=True)}
LATE = {"events": events(offset=11, late=0.25)}
JUMPS = {"events": events(offset=12, late=0.1, jumps={1: 3_600, 3: 86_400}, flush=True)}
GAPS = {"events": events(offset=13, steps=5, empty_steps=(1, 3), flush=True)}
LONELY = {"events": events(offset=14, rows=12, flush=True)}

tumbling_append = Case(
    "tumbling_append", "append", windowed(tumbling, "key"), ORDERLY, reference="append"
)
session_append = Case(
    "session_append", "append", windowed(session, "key"), ORDERLY, reference="append"
)

CASES = [
    tumbling_append,
    tumbling_append.restarted_after_each_step(),
    Case(
        "tumbling_append_live",
        "append",
        windowed(tumbling, "key"),
        ORDERLY,
        drive="live",
        reference="append",
    ),
    Case("tumbling_update", "update", windowed(tumbling, "key"), LATE),
    Case("tumbling_complete", "complete", windowed(tumbling, "key"), LATE, reference="complete"),
    Case("tumbling_without_key", "append", windowed(tumbling), ORDERLY, reference="append"),
    Case("tumbling_late", "append", windowed(tumbling, "key"), LATE),
    Case(
        "tumbling_watermark_jumps", "append", windowed(tumbling, "key"), JUMPS, restart_after=(3,)
    ),
    Case(
        "tumbling_empty_batches",
        "append",
        windowed(tumbling, "key"),
        GAPS,
        reference="append",
        restart_after=(2, 5),
    ),
    Case("tumbling_no_delay", "update", windowed(tumbling, "key", watermark="0 seconds"), LATE),
    Case("sliding_append", "append", windowed(sliding, "key"), ORDERLY, reference="append"),
    Case("sliding_update", "update", windowed(sliding, "flag"), LATE),
    Case("sliding_complete", "complete", windowed(sliding), LATE, reference="complete"),
    Case("holistic_append", "append", holistic, ORDERLY, reference="append"),
    Case("holistic_update", "update", holistic, LATE),
    session_append,
    session_append.restarted_after_each_step(),
    Case(
        "session_append_live",
        "append",
        windowed(session, "flag"),
        LONELY,
        drive="live",
        reference="append",
    ),
    # Sessions drop rows behind the watermark in complete mode too, as tumbling windows do not.
    Case("session_complete", "complete", windowed(session, "key"), LATE),
    Case("session_late", "append", windowed(session, "key"), LATE),
    Case("session_watermark_jumps", "append", windowed(session, "place"), JUMPS),
    Case(
        "session_dynamic_gap",
        "append",
        windowed(dynamic_session, "key"),
        ORDERLY,
        reference="append",
    ),
    Case(
        "session_local_merge",
        "append",
        windowed(session, "flag"),
        ORDERLY,
        reference="append",
        conf={"spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": "true"},
    ),
    Case("session_lists", "append", session_lists, ORDERLY, reference="append"),
]


@parametrize(CASES)
def test_window(spark, case, tmp_path):
    check(spark, case, tmp_path)
