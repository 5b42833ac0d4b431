"""The metrics of a store: one table, from which Spark's list, the reports and the page are made."""

from __future__ import annotations

from pyspark.sql import SparkSession
from support.fixtures import Opener
from support.metrics_page import PAGE, described, page_with, table

KINDS = {"count", "ms", "ns", "bytes", "now", "so far"}


def test_the_page_is_the_engines_table(spark: SparkSession) -> None:
    assert PAGE.read_text("utf-8") == page_with(table(spark)), (
        "docs/metrics.md is not of this engine: PYTHONPATH=tests python -m support.metrics_page"
    )


def test_every_metric_is_announced_and_reported(spark: SparkSession, open_provider: Opener) -> None:
    rows = described(spark)
    names = [name for name, _, _ in rows]
    assert len(set(names)) == len(names)
    assert {kind for _, kind, _ in rows} == KINDS
    assert all(meaning for _, _, meaning in rows)
    provider = open_provider()
    assert provider.supported_custom_metrics() == names
    store = provider.load(0)
    store.put(["a"], [1])
    assert store.get(["a"]) == (1,)
    store.commit()
    reported = store.metrics()["custom"]
    assert set(reported) == set(names)
    expected = {"tailraceRows": 1, "tailracePutCount": 1, "tailraceGetCount": 1}
    assert {name: reported[name] for name in expected} == expected
    assert reported["tailraceReservedBytes"] >= reported["tailraceLiveBytes"] > 0
