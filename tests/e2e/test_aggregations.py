"""Aggregations without a window: keyed and global, in update and complete mode.

Problem: an aggregation reads, changes and writes back each of its keys in every batch, and its
state lives for ever; a key encoded or compared wrongly shows up as a lost or doubled group.
Answer: keys of every shape (strings, null, empty and long ones, structs, arrays, several columns)
and buffers of fixed and of growing size, in both state formats of Spark.
Invariant: the output of every batch is RocksDB's, and the last state of each group is the plain
batch result over the same rows.
"""

import pytest
from pyspark.sql import functions as F

from .data import events
from .harness import (
    AGGREGATION_FORMAT_CONF,
    ROCKSDB,
    TAILRACE,
    Case,
    await_end,
    canonical_rows,
    check,
    new_session,
    parametrize,
    start_query,
    write_steps,
)


def counted(by):
    return lambda s: (
        s["events"].groupBy(*by).agg(F.count("*").alias("rows"), F.sum("amount").alias("amount"))
    )


def many_functions(s):
    return (
        s["events"]
        .groupBy("key")
        .agg(
            F.count("amount").alias("amounts"),
            F.sum("amount").alias("total"),
            F.avg("ratio").alias("mean_ratio"),
            F.avg("price").alias("mean_price"),
            F.min("time").alias("first_time"),
            F.max("price").alias("top_price"),
            F.min("key").alias("least_key"),
            F.max("place").alias("greatest_place"),
            F.bit_xor("id").alias("identity"),
            F.bool_or("flag").alias("any_flag"),
            F.count_if(F.col("amount") > 100).alias("large"),
        )
    )


def collections(s):
    return (
        s["events"]
        .groupBy("key")
        .agg(
            F.sort_array(F.collect_list("id")).alias("identifiers"),
            F.sort_array(F.collect_set("amount")).alias("amounts"),
            F.sort_array(F.collect_set("place")).alias("places"),
        )
    )


def sketches(s):
    return (
        s["events"]
        .groupBy("flag")
        .agg(
            F.approx_count_distinct("id").alias("distinct"),
            F.median("ratio").alias("median"),
            F.percentile("amount", F.array(F.lit(0.1), F.lit(0.9))).alias("tails"),
            F.max_by("tags", "id").alias("latest_tags"),
            F.min_by("place", "id").alias("earliest_place"),
        )
    )


def decimals(s):
    return (
        s["events"]
        .groupBy(F.col("price").cast("decimal(12,0)").alias("rounded"))
        .agg(F.sum("price").alias("total"), F.avg("price").alias("mean"))
    )


def growing_values(s):
    text = F.repeat(F.concat(F.lit("row "), F.col("id").cast("string")), 40)
    return (
        s["events"]
        .groupBy(F.pmod("id", F.lit(3)).alias("third"))
        .agg(F.sort_array(F.collect_list(text)).alias("texts"))
    )


def having(s):
    return counted(["key"])(s).where("rows > 4 AND amount IS NOT NULL")


def rolled_up(s):
    place = s["events"].select("flag", F.col("place.city").alias("city"), "amount")
    return place.rollup("flag", "city").agg(
        F.grouping_id().alias("level"), F.count("*").alias("rows"), F.sum("amount").alias("amount")
    )


def sorted_top(s):
    return counted(["key"])(s).orderBy(F.desc("rows"), F.asc_nulls_last("key")).limit(5)


def global_totals(s):
    return s["events"].agg(
        F.count("*").alias("rows"), F.sum("price").alias("price"), F.max("time").alias("latest")
    )


def typed_keys(s):
    keys = s["events"].select(
        F.to_date("time").alias("day"),
        F.col("key").cast("binary").alias("bytes"),
        (F.col("ratio") > 0).alias("positive"),
        F.when(F.col("flag"), F.lit(0.0)).otherwise(F.lit(-0.0)).alias("zero"),
        "amount",
    )
    return keys.groupBy("day", "bytes", "positive", "zero").agg(F.max("amount").alias("most"))


def ephemeral_keys(s):
    return s["events"].groupBy("id").agg(F.count("*").alias("rows"))


SIMPLE = {"events": events()}
WITH_GAPS = {"events": events(offset=1, steps=5, empty_steps=(0, 2, 3))}
RESENT = {"events": events(offset=2, resent=0.3, rows=120)}

keyed_complete = Case("keyed_complete", "complete", counted(["key"]), SIMPLE, reference="complete")
keyed_update = Case(
    "keyed_update", "update", many_functions, SIMPLE, reference="update", reference_key=("key",)
)

CASES = [
    keyed_complete,
    keyed_update,
    keyed_update.restarted_after_each_step(),
    Case(
        "keyed_update_live",
        "update",
        many_functions,
        SIMPLE,
        drive="live",
        reference="update",
        reference_key=("key",),
    ),
    Case("global_complete", "complete", global_totals, SIMPLE, reference="complete"),
    Case(
        "global_empty_batches",
        "complete",
        global_totals,
        WITH_GAPS,
        reference="complete",
        restart_after=(1, 3),
    ),
    Case(
        "keyed_empty_batches_live",
        "update",
        counted(["key"]),
        WITH_GAPS,
        drive="live",
        reference="update",
        reference_key=("key",),
    ),
    Case(
        "struct_key",
        "update",
        counted(["place"]),
        SIMPLE,
        reference="update",
        reference_key=("place",),
    ),
    Case(
        "array_key",
        "update",
        counted(["tags"]),
        SIMPLE,
        reference="update",
        reference_key=("tags",),
    ),
    Case("typed_keys", "complete", typed_keys, SIMPLE),
    Case(
        "key_per_row", "update", ephemeral_keys, RESENT, reference="update", reference_key=("id",)
    ),
    Case("collections", "complete", collections, SIMPLE, reference="complete"),
    Case(
        "sketches_and_percentiles",
        "update",
        sketches,
        SIMPLE,
        reference="update",
        reference_key=("flag",),
    ),
    Case("decimals", "complete", decimals, SIMPLE, reference="complete"),
    Case(
        "growing_values",
        "update",
        growing_values,
        SIMPLE,
        reference="update",
        reference_key=("third",),
    ),
    Case("having", "update", having, SIMPLE),
    Case("rollup", "complete", rolled_up, SIMPLE, reference="complete"),
    Case("sorted_top_five", "complete", sorted_top, SIMPLE, reference="complete"),
    Case(
        "state_format_1",
        "update",
        many_functions,
        SIMPLE,
        conf={AGGREGATION_FORMAT_CONF: "1"},
        reference="update",
        reference_key=("key",),
    ),
]


@parametrize(CASES)
def test_aggregation(spark, case, tmp_path):
    check(spark, case, tmp_path)


def texts(s):
    """Intermediate results without a fixed size: Spark sorts in the place of hashing."""
    return (
        s["events"]
        .groupBy("flag")
        .agg(F.max("key").alias("highest"), F.max_by("key", "id").alias("latest"), F.min("tags"))
    )


@pytest.mark.parametrize("build", [counted(["key"]), counted(["place", "flag"]), texts])
def test_both_ways_of_merging_share_the_state(spark, build, tmp_path):
    """Complete mode runs Spark's operators, update mode one of ours, from the same checkpoint."""
    shown = {}
    for provider in (ROCKSDB, TAILRACE):
        batches = []
        for number, mode in enumerate(("complete", "update", "complete", "update")):
            case = Case("both", mode, build, SIMPLE)
            session = new_session(spark, provider, {})
            write_steps(case, tmp_path / provider, number, number + 1)
            query = start_query(
                session,
                case,
                tmp_path / provider,
                lambda batch, _, batches=batches: batches.append(canonical_rows(batch.collect())),
            )
            await_end(query)
            plan = spark._jvm.org.apache.spark.sql.tailrace.StreamingPlan.ofQuery(query._jsq)
            merges = "MergeState" in plan.get().toString()
            assert merges == (mode == "update" and provider == TAILRACE)
        shown[provider] = batches
    assert len(shown[TAILRACE]) == 4
    assert shown[TAILRACE] == shown[ROCKSDB]
