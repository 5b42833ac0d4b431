"""Joins of two streams: inner, outer and semi, in every state format Spark 4.3 can start.

Problem: a join keeps both sides' rows, many to a key, and must find, mark as matched and evict them
one by one; each of Spark's state formats asks another shape of the store (format 2 uses four stores
a partition, 3 and 4 one store with column families, 4 also ordered scans and merges). A new query
cannot use format 1: Spark 4.3 has no writer for its schema file.
Answer: one pair of streams with a time range, joined in all five ways in all three formats, plus
joins on a window, without watermarks, with a residual condition, with rows behind the watermark and
of a stream with itself.
Invariant: every batch joins the same rows as on RocksDB; over orderly input the union of all
batches is the batch join.
"""

from dataclasses import replace

from pyspark.sql import functions as F

from .data import WATERMARK, advertisements, events
from .harness import JOIN_FORMAT_CONF, Case, check, parametrize

IN_RANGE = "clicked_at >= shown_at AND clicked_at <= shown_at + INTERVAL 40 SECONDS"


def marked(s):
    return (
        s["shown"].withWatermark("shown_at", WATERMARK),
        s["clicks"].withWatermark("clicked_at", WATERMARK),
    )


def in_time_range(how):
    def build(s):
        shown, clicks = marked(s)
        return shown.join(clicks, F.expr(f"ad = clicked_ad AND {IN_RANGE}"), how)

    return build


def on_window(how):
    def build(s):
        shown, clicks = marked(s)
        left = shown.select(F.window("shown_at", "30 seconds").alias("span"), "ad", "cost")
        right = clicks.select(
            F.window("clicked_at", "30 seconds").alias("span"),
            F.col("clicked_ad").alias("ad"),
            "gain",
        )
        return left.join(right, ["span", "ad"], how)

    return build


def with_residual_condition(how):
    def build(s):
        shown, clicks = marked(s)
        condition = f"ad = clicked_ad AND {IN_RANGE} AND cost < gain AND pmod(shown_id, 3) > 0"
        return shown.join(clicks, F.expr(condition), how)

    return build


def without_watermark(s):
    return s["shown"].join(s["clicks"], F.expr("ad = clicked_ad AND cost = gain"))


def with_itself(s):
    time = "later_time BETWEEN time AND time + INTERVAL 10 SECONDS"
    source = s["events"].withWatermark("time", WATERMARK)
    earlier = source.select("id", "key", "time")
    later = source.select(
        F.col("id").alias("later_id"),
        F.col("key").alias("later_key"),
        F.col("time").alias("later_time"),
    )
    return earlier.join(later, F.expr(f"key = later_key AND id < later_id AND {time}"))


def format_options(version):
    """Formats 3 and 4 keep both sides in one store, which takes column families."""
    return {
        "conf": {JOIN_FORMAT_CONF: str(version)},
        "needs_column_families": version >= 3,
    }


# Spark's full outer join pairs a null key with a null key, on any store, as a batch join does not:
# the joins that are compared with a batch join have none.
ORDERLY = advertisements(nulls=0.0)
WITH_NULLS = advertisements(offset=3, nulls=0.3)
LATE = advertisements(late=0.3, flush=False, offset=1)
# A stream whose right side has nothing to say in some steps.
UNEVEN = {
    "shown": ORDERLY["shown"],
    "clicks": replace(
        ORDERLY["clicks"],
        steps=[[] if step in (0, 2) else rows for step, rows in enumerate(ORDERLY["clicks"].steps)],
    ),
}
# Nothing is evicted without a watermark, so there is nothing to flush.
UNBOUNDED = advertisements(flush=False, offset=2)

HOW = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "semi": "left_semi",
}

RANGE_CASES = [
    Case(
        f"{name}_range_format_{version}",
        "append",
        in_time_range(how),
        ORDERLY,
        reference="append",
        **format_options(version),
    )
    for name, how in HOW.items()
    for version in (2, 3, 4)
    if version != 3 or name in ("full", "semi")
]

OTHER_CASES = (
    [
        Case(
            f"left_window_format_{version}",
            "append",
            on_window("left_outer"),
            ORDERLY,
            reference="append",
            **format_options(version),
        )
        for version in (2, 4)
    ]
    + [
        Case(
            f"unbounded_inner_format_{version}",
            "append",
            without_watermark,
            UNBOUNDED,
            reference="append",
            **format_options(version),
        )
        for version in (2, 4)
    ]
    + [
        Case(
            f"full_late_format_{version}",
            "append",
            in_time_range("full_outer"),
            LATE,
            **format_options(version),
        )
        for version in (2, 4)
    ]
    + [
        Case(f"{name}_null_keys", "append", in_time_range(how), WITH_NULLS)
        for name, how in HOW.items()
        if name in ("inner", "left", "full")
    ]
    + [
        Case("inner_window", "append", on_window("inner"), ORDERLY, reference="append"),
        Case("full_uneven", "append", in_time_range("full_outer"), UNEVEN, reference="append"),
        Case(
            "right_residual_condition",
            "append",
            with_residual_condition("right_outer"),
            ORDERLY,
            reference="append",
        ),
        Case(
            "semi_residual_condition_format_3",
            "append",
            with_residual_condition("left_semi"),
            ORDERLY,
            reference="append",
            **format_options(3),
        ),
        Case("self_join", "append", with_itself, {"events": events(offset=30)}, reference="append"),
        Case(
            "full_max_watermark_policy",
            "append",
            in_time_range("full_outer"),
            LATE,
            conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"},
        ),
        Case(
            "full_range_default", "append", in_time_range("full_outer"), ORDERLY, reference="append"
        ).restarted_after_each_step(),
        Case(
            "left_range_format_4",
            "append",
            in_time_range("left_outer"),
            ORDERLY,
            reference="append",
            **format_options(4),
        ).restarted_after_each_step(),
    ]
)


@parametrize(RANGE_CASES)
def test_time_range_join(spark, case, tmp_path):
    check(spark, case, tmp_path)


@parametrize(OTHER_CASES)
def test_join(spark, case, tmp_path):
    check(spark, case, tmp_path)
