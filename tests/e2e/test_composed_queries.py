"""Several stateful operators in one query, limits, unions and SQL text.

Problem: operators of one query share a checkpoint and a batch but not a watermark: each has stores
of its own, distinguished only by the operator's number, and a downstream operator evicts later than
the one that feeds it.
Answer: chains of every two operator families, and the same queries written as SQL.
Invariant: every batch gives RocksDB's rows, and every operator keeps as many rows of state.
"""

from pyspark.sql import functions as F

from .data import WATERMARK, advertisements, events
from .harness import JOIN_FORMAT_CONF, Case, check, parametrize


def marked_events(s):
    return s["events"].withWatermark("time", WATERMARK)


def window_then_window(s):
    small = marked_events(s).groupBy(F.window("time", "10 seconds"), "key").count()
    return small.groupBy(F.window(F.window_time("window"), "30 seconds")).agg(
        F.count("*").alias("keys"), F.sum("count").alias("rows")
    )


def session_then_window(s):
    sessions = marked_events(s).groupBy(F.session_window("time", "4 seconds"), "key").count()
    return sessions.groupBy(F.window(F.window_time("session_window"), "30 seconds")).agg(
        F.count("*").alias("sessions"), F.max("count").alias("longest")
    )


def deduplication_then_window(s):
    unique = marked_events(s).dropDuplicates(["id", "time"])
    return unique.groupBy(F.window("time", "20 seconds"), "flag").agg(
        F.count("*").alias("rows"), F.sum("price").alias("price")
    )


def within_watermark_then_window(s):
    unique = marked_events(s).dropDuplicatesWithinWatermark(["id"])
    return unique.groupBy(F.window("time", "20 seconds")).count()


def join_then_window(how):
    def build(s):
        shown = s["shown"].withWatermark("shown_at", WATERMARK)
        clicks = s["clicks"].withWatermark("clicked_at", WATERMARK)
        condition = (
            "ad = clicked_ad AND clicked_at >= shown_at"
            " AND clicked_at <= shown_at + INTERVAL 40 SECONDS"
        )
        joined = shown.join(clicks, F.expr(condition), how)
        return joined.groupBy(F.window("shown_at", "60 seconds")).agg(
            F.count("*").alias("rows"), F.sum("gain").alias("gain"), F.sum("cost").alias("cost")
        )

    return build


def windows_then_join(s):
    shown = (
        s["shown"]
        .withWatermark("shown_at", WATERMARK)
        .groupBy(F.window("shown_at", "30 seconds").alias("span"))
        .agg(F.sum("cost").alias("cost"))
    )
    clicks = (
        s["clicks"]
        .withWatermark("clicked_at", WATERMARK)
        .groupBy(F.window("clicked_at", "30 seconds").alias("span"))
        .agg(F.sum("gain").alias("gain"))
    )
    return shown.join(clicks, "span")


def union_then_window(s):
    shown = s["shown"].withWatermark("shown_at", WATERMARK)
    clicks = s["clicks"].withWatermark("clicked_at", WATERMARK)
    both = shown.select(F.col("ad").alias("name"), F.col("shown_at").alias("time"), "cost").union(
        clicks.select("clicked_ad", "clicked_at", "gain")
    )
    return both.groupBy(F.window("time", "20 seconds")).agg(F.sum("cost").alias("sum"))


def static_join_then_aggregation(s):
    session = s["events"].sparkSession
    labels = session.createDataFrame([(0, "low"), (1, "middle")], "zone INT, label STRING")
    placed = s["events"].select(F.col("place.zone").alias("zone"), "amount")
    return placed.join(labels, "zone", "left").groupBy("label").agg(F.sum("amount").alias("amount"))


def limited(s):
    """Which rows pass is fixed: a batch is one file, and one task reads it in its order."""
    return s["events"].select("id", "key").limit(70)


def limited_deduplication(s):
    return s["events"].select(F.pmod("id", F.lit(1)).alias("zero")).dropDuplicates().limit(3)


def sql(text):
    def build(s):
        session = next(iter(s.values())).sparkSession
        for name, frame in s.items():
            frame.createOrReplaceTempView(name)
        return session.sql(text)

    return build


SQL_WINDOW = """
    SELECT window.start AS start, key, count(*) AS rows, sum(price) AS price
    FROM (SELECT * FROM events WHERE ratio > -80)
    GROUP BY window(time, '20 seconds'), key
    HAVING count(*) > 1
"""
SQL_DISTINCT = "SELECT DISTINCT key, place.city AS city FROM events"
SQL_SUBQUERY = """
    WITH priced AS (SELECT flag, struct(place.zone AS zone, key) AS spot, price FROM events)
    SELECT spot, flag, avg(price) AS price, count(*) FILTER (WHERE price > 5000) AS dear
    FROM priced GROUP BY spot, flag
"""

EVENTS = {"events": events(offset=50, flush=True)}
LATE = {"events": events(offset=51, late=0.3, resent=0.2)}
RESENT = {"events": events(offset=52, resent=0.3, flush=True)}
PLAIN = {"events": events(offset=53)}
ADVERTISEMENTS = advertisements(offset=50)

CASES = [
    Case("window_then_window", "append", window_then_window, EVENTS, reference="append"),
    Case("window_then_window_late", "append", window_then_window, LATE),
    Case(
        "window_then_window", "append", window_then_window, EVENTS, reference="append"
    ).restarted_after_each_step(),
    Case("session_then_window", "append", session_then_window, EVENTS),
    Case(
        "deduplication_then_window", "append", deduplication_then_window, RESENT, reference="append"
    ),
    Case("within_watermark_then_window", "append", within_watermark_then_window, RESENT),
    Case(
        "inner_join_then_window",
        "append",
        join_then_window("inner"),
        ADVERTISEMENTS,
        reference="append",
    ),
    Case(
        "left_join_then_window",
        "append",
        join_then_window("left_outer"),
        ADVERTISEMENTS,
        reference="append",
    ),
    Case(
        "left_join_format_4_then_window",
        "append",
        join_then_window("left_outer"),
        ADVERTISEMENTS,
        conf={JOIN_FORMAT_CONF: "4"},
        needs_column_families=True,
        reference="append",
    ),
    Case("windows_then_join", "append", windows_then_join, ADVERTISEMENTS, reference="append"),
    Case("union_then_window", "append", union_then_window, ADVERTISEMENTS, reference="append"),
    Case(
        "static_join_then_aggregation",
        "complete",
        static_join_then_aggregation,
        PLAIN,
        reference="complete",
    ),
    Case("limited", "append", limited, PLAIN),
    Case("limited_deduplication", "append", limited_deduplication, PLAIN),
    Case("sql_window_complete", "complete", sql(SQL_WINDOW), PLAIN, reference="complete"),
    Case(
        "sql_distinct",
        "update",
        sql(SQL_DISTINCT),
        PLAIN,
        reference="update",
        reference_key=("key", "city"),
    ),
    Case(
        "sql_subquery",
        "update",
        sql(SQL_SUBQUERY),
        PLAIN,
        reference="update",
        reference_key=("spot", "flag"),
    ),
]


@parametrize(CASES)
def test_composed_query(spark, case, tmp_path):
    check(spark, case, tmp_path)
