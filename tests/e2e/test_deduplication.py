"""Deduplication: for ever, up to a watermark on the event time, and within a watermark.

Problem: the state of a deduplication is nothing but the set of keys seen; a key lost lets a copy
through, a key kept too long swallows a new event, and neither fails.
Answer: streams that send rows again in later batches, early and late, with null and struct keys.
Invariant: every batch lets the same rows through as on RocksDB and keeps as many keys; over
exact copies the union of all batches is the batch result.
"""

import random
from dataclasses import replace

from pyspark.sql import functions as F

from .data import SEED, WATERMARK, Stream, event, events
from .harness import Case, check, parametrize


def resent_at_other_times(steps=5, rows=30):
    """Identifiers come back later under another time, at most once a step: which of two rows of
    one batch comes first is Spark's choice, which of two batches is not."""
    generator = random.Random(SEED + 20)
    result = [
        [
            event(generator, identifier, step * 60 + generator.uniform(0, 55))
            for identifier in generator.sample(range(60), rows)
        ]
        for step in range(steps)
    ]
    return Stream(events().schema, result, SEED + 20)


def by_identifier(s):
    return s["events"].dropDuplicates(["id"]).select("id", "key", "price")


def by_everything(s):
    return s["events"].select("key", "place", "tags", "flag").dropDuplicates()


def by_identifier_and_time(s):
    return s["events"].withWatermark("time", WATERMARK).dropDuplicates(["id", "time"])


def by_place_and_window(s):
    marked = s["events"].withWatermark("time", WATERMARK)
    windows = marked.select(F.window("time", "20 seconds").alias("span"), "place", "flag")
    return windows.dropDuplicates(["span", "place", "flag"])


def within_watermark(delay):
    def build(s):
        marked = s["events"].withWatermark("time", delay)
        return marked.dropDuplicatesWithinWatermark(["id"]).select("id", "time", "amount")

    return build


def within_watermark_all_columns(s):
    narrow = s["events"].select("time", "id", "place").withWatermark("time", WATERMARK)
    return narrow.dropDuplicatesWithinWatermark()


RESENT = {"events": events(offset=21, resent=0.4, flush=True)}
RESENT_AND_LATE = {"events": events(offset=22, resent=0.3, late=0.3)}
RETURNING = {"events": resent_at_other_times()}
JUMPING = {"events": events(offset=23, resent=0.3, jumps={2: 7_200}, flush=True)}

# The flush row itself is let through at once, so the batch result has to contain it.
ALL_RESENT = {"events": replace(RESENT["events"], flush_rows=0)}

forever = Case("forever_by_identifier", "append", by_identifier, ALL_RESENT, reference="append")
watermarked = Case("watermarked", "append", by_identifier_and_time, ALL_RESENT, reference="append")
within = Case("within_watermark", "append", within_watermark(WATERMARK), RETURNING)

CASES = [
    forever,
    forever.restarted_after_each_step(),
    Case(
        "forever_by_identifier_live",
        "append",
        by_identifier,
        ALL_RESENT,
        drive="live",
        reference="append",
    ),
    Case("forever_by_everything", "append", by_everything, ALL_RESENT, reference="append"),
    watermarked,
    Case("watermarked_late", "append", by_identifier_and_time, RESENT_AND_LATE),
    Case("watermarked_jump", "append", by_identifier_and_time, JUMPING, restart_after=(2, 4)),
    Case("watermarked_window_struct_null_keys", "append", by_place_and_window, RESENT_AND_LATE),
    within,
    within.restarted_after_each_step(),
    Case("within_long_watermark", "append", within_watermark("2 minutes"), RETURNING),
    Case("within_watermark_live", "append", within_watermark(WATERMARK), RETURNING, drive="live"),
    # A batch has no watermark to deduplicate within: RocksDB is the only reference.
    Case("within_watermark_all_columns", "append", within_watermark_all_columns, ALL_RESENT),
]


@parametrize(CASES)
def test_deduplication(spark, case, tmp_path):
    check(spark, case, tmp_path)
