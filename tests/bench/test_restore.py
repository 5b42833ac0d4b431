"""The restore run on a tiny state: every store comes back with all of it, in turns."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace
from tailrace.bench import restore
from tailrace.bench.screen import Screen
from tailrace.bench.stores import BenchError, chosen
from tailrace.cli._local import LocalSession


def test_every_store_comes_back_with_its_state(spark: SparkSession, tmp_path: Path) -> None:
    found = restore.measure(
        LocalSession(spark, tmp_path),
        chosen(["rocksdb", "tailrace"]),
        sizes=(200,),
        rows=50,
        repeats=2,
        partitions=1,
        confs=tailrace.confs(),
        screen=Screen(1, io.StringIO()),
    )
    (stores,) = found["sizes"].values()
    assert set(stores) == {"rocksdb", "tailrace"}
    assert all(len(measured["seconds"]) == 2 for measured in stores.values())
    assert len(stores["tailrace"]["load_seconds_summed_over_tasks"]) == 2
    assert all(len(measured["crash_seconds"]) == 2 for measured in stores.values())
    assert "after a crash" in restore.conclusion(found)
    assert "200 keys" in restore.conclusion(found)


def test_a_store_that_loses_rows_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """The floor keeps nothing, so it cannot come back with its keys."""
    with pytest.raises(BenchError, match="came back with 0 rows"):
        restore.measure(
            LocalSession(spark, tmp_path),
            chosen(["none"]),
            sizes=(200,),
            rows=50,
            repeats=1,
            partitions=1,
            confs=tailrace.confs(),
            screen=Screen(1, io.StringIO()),
        )
