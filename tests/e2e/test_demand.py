"""Reads on demand (`prefetch="demand"`): rows whose records are in memory overtake the others.

Problem: rows overtake each other, so an operator may see them in another order.
Answer: each kind of operator with all state in files, against RocksDB, batch by batch.
Invariant: the same rows in the same batches. Records come from reads on demand, and from no others.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from . import test_deduplication, test_joins, test_windows
from .data import events
from .harness import Case, check
from .test_cold import CONF, named
from .test_hints import OPERATORS, last_metrics

DEMAND = {CONF + "spill": "always", CONF + "prefetch": "demand"}


def on_demand(case: Case) -> Case:
    return replace(case, conf={**case.conf, **DEMAND})


def first_of_a_key(s):
    """Deduplication shows the first row of a key: the order of a key's rows is to be seen."""
    rows = s["events"].withColumn("half", F.col("id") % 3_000)
    return rows.dropDuplicates(["half"])


def ordered_sums(s):
    """Sums of floating-point numbers depend on their order."""
    rows = s["events"].withColumn("half", F.col("id") % 500)
    return rows.groupBy("half").agg(F.sum(F.col("amount") / 7.0).alias("sum"), F.count("*"))


CASES = [
    *named(test_windows.CASES, "sliding_update", "tumbling_late"),
    *named(test_deduplication.CASES, "watermarked_late", "within_long_watermark"),
    test_joins.RANGE_CASES[0],
    Case("first", "append", first_of_a_key, {"events": events(offset=90, steps=6, rows=1_500)}),
    Case("sums", "update", ordered_sums, {"events": events(offset=91, steps=6, rows=1_500)}),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_same_as_rocksdb(spark, case, tmp_path):
    check(spark, on_demand(case), tmp_path)


@pytest.mark.parametrize("operator", OPERATORS)
def test_records_are_read_on_demand(spark, operator, tmp_path):
    query, mode, streams = OPERATORS[operator]
    case = on_demand(Case(operator, mode, query, streams))
    check(spark, case, tmp_path / "check")
    found = last_metrics(spark, case, tmp_path / "metrics")
    assert found["tailracePrefetchHits"] + found["tailracePrefetchLate"] > 0
    assert found["tailraceHitsOnDemand"] == found["tailracePrefetchHits"]
    assert found["tailraceHintsReceived"] == 0
