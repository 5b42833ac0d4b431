"""Values of a remote table as values of the columns that were declared for them.

Problem: Redis has text, other tables have Python objects, and a column has one type. A value that
does not fit would fail in Arrow, far from the key that has it.
Answer: one reader per column, made from its Spark type. It takes a Python value of that type, or
text that says one; a nested value is text in JSON.
Invariant: a value that a reader gives fits its column. Everything else is refused with the reason.
"""

from __future__ import annotations

import datetime
import decimal
import json
import zoneinfo
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from tailrace.errors import OptionError

Reader = Callable[[Any], Any]

_INTEGERS: dict[type[t.DataType], int] = {
    t.ByteType: 8,
    t.ShortType: 16,
    t.IntegerType: 32,
    t.LongType: 64,
}
_MOST_DIGITS = 38
"""Of a decimal number of Spark's."""
_TRUE = frozenset({"true", "t", "1", "yes"})
_FALSE = frozenset({"false", "f", "0", "no"})


def reader(kind: t.DataType, zone: str) -> Reader:
    """Reads values of a type. Times without an offset are in the time zone `zone`.

    A value that does not fit is a ValueError or a TypeError.
    """
    read = _reader(kind, zone)
    return lambda value: None if value is None else read(value)


def _reader(kind: t.DataType, zone: str) -> Reader:
    if type(kind) in _INTEGERS:
        return _integers(_INTEGERS[type(kind)])
    if isinstance(kind, t.DecimalType):
        return _decimals(kind)
    if isinstance(kind, t.TimestampType):
        return _timestamps(zoneinfo.ZoneInfo(zone))
    if isinstance(kind, t.ArrayType):
        return _arrays(reader(kind.elementType, zone))
    if isinstance(kind, t.MapType):
        return _maps(reader(kind.keyType, zone), reader(kind.valueType, zone))
    if isinstance(kind, t.StructType):
        return _structs({field.name: reader(field.dataType, zone) for field in kind.fields})
    plain: dict[type[t.DataType], Reader] = {
        t.StringType: _text,
        t.BinaryType: _bytes,
        t.BooleanType: _boolean,
        t.FloatType: _number,
        t.DoubleType: _number,
        t.DateType: _date,
        t.TimestampNTZType: _local_time,
    }
    if type(kind) not in plain:
        raise OptionError(
            f"A column of a remote table cannot be of type {kind.simpleString()}.",
            "There is no rule how such a value is read.",
            "Declare the column as string, and turn it into the type with Spark's functions.",
        )
    return plain[type(kind)]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        return value
    raise TypeError(f"it is of type {type(value).__name__}")


def _said(value: Any) -> str | None:
    """Text, without the spaces around it; None if the value is no text."""
    return _text(value).strip() if isinstance(value, (str, bytes)) else None


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return _text(value).encode()


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    said = _text(value).strip().lower()
    if said in _TRUE or said in _FALSE:
        return said in _TRUE
    raise ValueError("it is neither true nor false")


def _integers(bits: int) -> Reader:
    limit = 1 << (bits - 1)

    def read(value: Any) -> int:
        said = _said(value)
        if said is None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"it is of type {type(value).__name__}")
        number = int(value if said is None else said)
        if not -limit <= number < limit:
            raise ValueError(f"it has more than {bits} bits")
        return number

    return read


def _number(value: Any) -> float:
    said = _said(value)
    if said is None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise TypeError(f"it is of type {type(value).__name__}")
    return float(value if said is None else said)


def _decimals(kind: t.DecimalType) -> Reader:
    step = decimal.Decimal(1).scaleb(-kind.scale)
    limit = decimal.Decimal(10) ** (kind.precision - kind.scale)
    context = decimal.Context(prec=2 * _MOST_DIGITS)

    def read(value: Any) -> decimal.Decimal:
        said = _said(value)
        if said is None and not isinstance(value, (int, decimal.Decimal)):
            raise TypeError(f"it is of type {type(value).__name__}")
        try:
            number = decimal.Decimal(value if said is None else said)
            rounded = number.quantize(step, context=context)
        except decimal.InvalidOperation:
            raise ValueError("it is not a decimal number") from None
        if not rounded.is_finite():
            raise ValueError("it is not a decimal number")
        if abs(rounded) >= limit:
            raise ValueError(f"it has more digits than {kind.simpleString()}")
        return rounded

    return read


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    return datetime.date.fromisoformat(_text(value).strip())


def _local_time(value: Any) -> datetime.datetime:
    time = _time(value)
    if time.tzinfo is not None:
        raise ValueError("it has a time zone")
    return time


def _timestamps(zone: datetime.tzinfo) -> Reader:
    def read(value: Any) -> datetime.datetime:
        time = _time(value)
        return time.replace(tzinfo=zone) if time.tzinfo is None else time

    return read


def _time(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    said = _text(value).strip()
    # Before Python 3.11 "Z" is not read.
    return datetime.datetime.fromisoformat(said[:-1] + "+00:00" if said.endswith("Z") else said)


def _arrays(element: Reader) -> Reader:
    return lambda value: [element(item) for item in _nested(value, list, "an array")]


def _maps(key: Reader, item: Reader) -> Reader:
    # Arrow takes a map as pairs.
    return lambda value: [
        (key(name), item(entry)) for name, entry in _nested(value, dict, "an object").items()
    ]


def _structs(fields: dict[str, Reader]) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        found = _nested(value, dict, "an object")
        return {name: field(found.get(name)) for name, field in fields.items()}

    return read


def _nested(value: Any, kind: type, called: str) -> Any:
    if isinstance(value, (str, bytes)):
        value = json.loads(value)
    if kind is list and isinstance(value, tuple):
        return value
    if not isinstance(value, kind):
        raise TypeError(f"it is not {called}")
    return value
