"""Values of a remote table: those that fit a column, and the errors of those that do not."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as t

from tailrace.enrich.values import reader
from tailrace.errors import OptionError

UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 250_000)
POINT = t.StructType([t.StructField("x", t.IntegerType()), t.StructField("y", t.DoubleType())])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (t.StringType(), b"\xc3\xa4", "ä"),
        (t.StringType(), "", ""),
        (t.BinaryType(), b"\xff", b"\xff"),
        (t.BinaryType(), "a", b"a"),
        (t.BooleanType(), b"True", True),
        (t.BooleanType(), "0", False),
        (t.BooleanType(), False, False),
        (t.ByteType(), b"-128", -128),
        (t.IntegerType(), " 7 ", 7),
        (t.LongType(), 2**63 - 1, 2**63 - 1),
        (t.DoubleType(), b"1e3", 1000.0),
        (t.DoubleType(), 3, 3.0),
        (t.DecimalType(5, 2), "123.45", Decimal("123.45")),
        (t.DecimalType(5, 2), 7, Decimal("7.00")),
        (t.DateType(), "2026-01-02", datetime.date(2026, 1, 2)),
        (t.TimestampType(), "2026-01-02T12:00:00.250000Z", NOON.replace(tzinfo=UTC)),
        (t.TimestampType(), "2026-01-02 13:00:00.250000", NOON.replace(tzinfo=UTC)),
        (t.TimestampType(), NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
        (t.TimestampNTZType(), "2026-01-02 12:00:00.250000", NOON),
        (t.ArrayType(t.IntegerType()), "[1, null, 3]", [1, None, 3]),
        (t.ArrayType(t.StringType()), ("a", "b"), ["a", "b"]),
        (t.MapType(t.StringType(), t.LongType()), b'{"a": 1}', [("a", 1)]),
        (POINT, '{"x": 1, "z": 9}', {"x": 1, "y": None}),
    ],
)
def test_a_value_that_fits(kind: t.DataType, value: Any, expected: Any) -> None:
    assert reader(kind, "Europe/Paris")(value) == expected


@pytest.mark.parametrize("kind", [t.StringType(), t.LongType(), POINT])
def test_none_is_a_null(kind: t.DataType) -> None:
    assert reader(kind, "UTC")(None) is None


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (t.StringType(), 7, "of type int"),
        (t.StringType(), b"\xff", "decode"),
        (t.IntegerType(), "abc", "abc"),
        (t.IntegerType(), "1.5", "1.5"),
        (t.IntegerType(), True, "of type bool"),
        (t.ByteType(), 128, "more than 8 bits"),
        (t.BooleanType(), "maybe", "neither true nor false"),
        (t.DoubleType(), "one", "one"),
        (t.DecimalType(5, 2), "1000", "more digits than decimal"),
        (t.DecimalType(5, 2), "x", "not a decimal number"),
        (t.DecimalType(5, 2), "NaN", "not a decimal number"),
        (t.DateType(), NOON, "of type datetime"),
        (t.TimestampNTZType(), "2026-01-02T12:00:00Z", "time zone"),
        (t.ArrayType(t.IntegerType()), "{}", "not an array"),
        (t.ArrayType(t.IntegerType()), '["a"]', "'a'"),
        (POINT, "[1]", "not an object"),
        (POINT, "{", "Expecting"),
    ],
)
def test_a_value_that_does_not_fit(kind: t.DataType, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        reader(kind, "UTC")(value)


def test_a_type_without_a_rule_is_refused() -> None:
    with pytest.raises(OptionError, match="cannot be of type"):
        reader(t.CalendarIntervalType(), "UTC")
    with pytest.raises(OptionError, match="cannot be of type"):
        reader(t.ArrayType(t.VariantType()), "UTC")
