"""The distinct keys of a batch of rows, and the column that is made from their records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructType

from tailrace.enrich.keys import Columns, Keys


def keys_by_row(keys: Keys) -> list[Any]:
    return [None if row is None else keys.distinct[row] for row in keys.rows.to_pylist()]


@pytest.mark.parametrize(
    "rows",
    [
        ["a", "b", None, "a", ""],
        [3, 1, 3, None, -1],
        [b"\xff", b"", b"\xff"],
        [],
    ],
)
def test_one_column(rows: Sequence[Any]) -> None:
    keys = Keys.of([pa.array(rows)])
    assert keys_by_row(keys) == list(rows)
    assert sorted(keys.distinct) == sorted({row for row in rows if row is not None})
    assert keys.count == sum(row is not None for row in rows)


def test_a_column_of_nulls() -> None:
    keys = Keys.of([pa.array([None, None], pa.string())])
    assert (keys_by_row(keys), keys.distinct, keys.count) == ([None, None], [], 0)


def test_several_columns_and_a_null_in_any_of_them() -> None:
    rows = [("a", 1, True), ("a", 2, True), (None, 1, True), ("a", 1, True), ("b", None, False)]
    rows += [("b", 1, None), ("b", 1, False)]
    keys = Keys.of([pa.array(column) for column in zip(*rows, strict=True)])
    assert keys_by_row(keys) == [None if None in row else row for row in rows]
    assert len(keys.distinct) == len(set(keys.distinct)) == 3


def test_several_columns_of_which_one_is_null_in_all_rows() -> None:
    keys = Keys.of([pa.array(["a", "b"]), pa.array([None, None], pa.int64())])
    assert keys.distinct == []
    assert keys_by_row(keys) == [None, None]


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_the_time_of_a_key_is_the_latest_of_its_rows(unit: str) -> None:
    factor = {"us": 1, "ms": 1000}[unit]
    times = pa.array([5, 9, 7, None, None, 99], pa.timestamp(unit, "UTC"))
    keys = Keys.of([pa.array(["a", "a", "b", "b", "c", None])], times)
    assert dict(zip(keys.distinct, keys.times or [], strict=True)) == {
        "a": 9 * factor,
        "b": 7 * factor,
        "c": 0,
    }


def test_records_are_spread_over_the_rows() -> None:
    schema = (
        StructType()
        .add("name", "string")
        .add("tags", ArrayType(IntegerType()))
        .add("at", "timestamp")
    )
    keys = Keys.of([pa.array([2, 1, None, 3, 2])])
    made = Columns(schema).of(keys, {1: ("one", [1], None), 2: ("two", None, None), 3: None})
    one = {"name": "one", "tags": [1], "at": None}
    two = {"name": "two", "tags": None, "at": None}
    assert made.to_pylist() == [two, one, None, None, two]


def test_a_batch_without_rows() -> None:
    schema = StructType().add("name", "string")
    made = Columns(schema).of(Keys.of([pa.array([], pa.string())]), {})
    assert made.to_pylist() == []
