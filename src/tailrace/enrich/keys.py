"""The keys of an Arrow batch, and the columns that are made from their records.

Problem: a batch has thousands of rows and far fewer keys. Work in Python per row would cost more
than the join itself.
Answer: Arrow finds the distinct keys and each row's number among them. Python sees the distinct
keys only, and Arrow spreads their records over the rows.
Invariant: a row whose key has a null has no number, is not asked for, and gets a null record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from tailrace.enrich.cache import Values
from tailrace.enrich.source import Key


@dataclasses.dataclass(frozen=True)
class Keys:
    """The distinct keys of a batch, the latest time of each, and each row's number among them."""

    distinct: list[Any]
    times: list[int] | None
    rows: pa.Array
    """Indices into `distinct`; null where the row has no key."""

    @property
    def count(self) -> int:
        """How many rows have a key."""
        return len(self.rows) - int(self.rows.null_count)

    @classmethod
    def of(cls, columns: Sequence[pa.Array], time: pa.Array | None = None) -> Keys:
        encoded = [column.dictionary_encode() for column in columns]
        if len(encoded) == 1:
            rows = encoded[0].indices
            distinct = encoded[0].dictionary.to_pylist()
        else:
            rows, distinct = _combined(encoded)
        return cls(distinct, None if time is None else _latest(rows, time, len(distinct)), rows)


def _combined(encoded: Sequence[Any]) -> tuple[pa.Array, list[tuple[Any, ...]]]:
    """Several columns as one: each combination of indices that occurs is a key."""
    codes = encoded[0].indices.cast(pa.int64())
    for column in encoded[1:]:
        # At most the product of the rows of a batch; it fits up to some columns of 10,000 keys
        # each, and is made dense again after every column so that more columns fit, too.
        size = max(1, len(column.dictionary))
        wide = pc.add(pc.multiply(codes, size), column.indices.cast(pa.int64()))
        codes = wide.dictionary_encode().indices.cast(pa.int64())
    first = _first_rows(codes)
    values = [column.take(first).to_pylist() for column in encoded]
    return codes.cast(pa.int32()), list(zip(*values, strict=True))


def _first_rows(codes: pa.Array) -> pa.Array:
    """For each code from 0 on, the first row that has it."""
    table = pa.table({"code": codes, "row": pa.array(range(len(codes)), pa.int64())})
    found = table.filter(pc.is_valid(table["code"])).group_by("code").aggregate([("row", "min")])
    return found.sort_by("code")["row_min"].combine_chunks()


def _latest(rows: pa.Array, time: pa.Array, keys: int) -> list[int]:
    """The latest event time of each key, in microseconds; 0 where all its rows have none."""
    micros = time.cast(pa.timestamp("us", time.type.tz)).cast(pa.int64())
    table = pa.table({"key": rows, "time": micros})
    found = table.group_by("key").aggregate([("time", "max")])
    latest = [0] * keys
    for key, at in zip(found["key"].to_pylist(), found["time_max"].to_pylist(), strict=True):
        if key is not None and at is not None:
            latest[key] = at
    return latest


class Columns:
    """Makes the struct column of the records, in the types that were declared."""

    def __init__(self, schema: StructType) -> None:
        self._fields = [
            pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"))
            for field in schema.fields
        ]

    def of(self, keys: Keys, records: Mapping[Key, Values | None]) -> pa.Array:
        found = [records[key] for key in keys.distinct]
        columns = [
            pa.array(
                [None if values is None else values[place] for values in found], type=field.type
            ).take(keys.rows)
            for place, field in enumerate(self._fields)
        ]
        there = pa.array([values is not None for values in found], type=pa.bool_())
        missing = pc.invert(pc.fill_null(there.take(keys.rows), False))
        return pa.StructArray.from_arrays(columns, fields=self._fields, mask=missing)
