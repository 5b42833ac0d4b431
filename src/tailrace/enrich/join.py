"""A stream joined with a remote table: `tailrace.enrich`.

Problem: a row has a key, and the record of the key is in a table that is too large, or changes too
often, to be loaded. A function that asks for each row waits for a round trip per row.
Answer: a Python function over the key columns alone gives a struct of the records (RFC 14). Keys
are read ahead, many at a time, and kept by event time for as long as they may be used.
Invariant: no row is lost or doubled. The other columns of the rows do not leave the JVM, so their
types and the watermark are as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace.enrich.metrics import Metrics
from tailrace.enrich.settings import Settings
from tailrace.enrich.source import Source, Wanted
from tailrace.errors import OptionError, SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

HOW = ("left", "inner")
_FOUND = "_tailrace_found"
_WATERMARK = "spark.watermarkDelayMs"


def enrich(
    df: DataFrame,
    on: str | Sequence[str],
    source: Source,
    columns: str | StructType,
    *,
    how: str = "left",
    time: str | None = None,
    ttl: str | None = "1min",
    missing_ttl: str | None = "10s",
    timeout: str = "30s",
    cache_memory: str = "64m",
    cache: str = "timestamp",
    look_ahead: int = 4,
    connections: int = 4,
    keys_per_request: int = 1000,
    metrics: Metrics | None = None,
) -> DataFrame:
    """The rows of `df`, stream or not, with columns from a remote table.

        ads = RedisSource("redis://cache:6379/0", key="ad:{ad_id}")
        tailrace.enrich(events, on="ad_id", source=ads, columns="campaign string, price double")

    on: the column that has the key, or several.
    source: the table: a `tailrace.enrich.RedisSource`, or a `Source` of your own.
    columns: names and types of the columns to add, as DDL or a StructType.
    how: "left" keeps rows whose key is null or missing in the table, with nulls; "inner" drops
    them.
    time: the column with the event time, by which the cache ranks. Without it, that of the
    watermark; if there is none, the order of arrival.
    ttl: how long a value may be used after it was read; None: as long as the process lives.
    missing_ttl: the same for the knowledge that a key is missing.
    timeout: how long a request is tried, with all retries, before the batch fails.
    cache_memory: for values that are kept, in each Python worker.
    cache: which of them go first when it is full: "timestamp", those with the earliest event time;
    "lru", those that were used least recently; "clock", an approximation of that.
    look_ahead: of how many Arrow batches the keys are read ahead; 0: of none.
    connections: requests that are made at the same time, in each Python worker.
    keys_per_request: the most keys of one request.
    metrics: a `tailrace.enrich.Metrics` that is to count.
    """
    settings = Settings(
        ttl=ttl,
        missing_ttl=missing_ttl,
        timeout=timeout,
        cache_memory=cache_memory,
        cache=cache,
        look_ahead=look_ahead,
        connections=connections,
        keys_per_request=keys_per_request,
    )
    if how not in HOW:
        raise OptionError(
            f"how does not take {how!r}.",
            f"It is one of {', '.join(HOW)}.",
            'Use "left" to keep rows without a record, or "inner" to drop them.',
        )
    if not isinstance(source, Source):
        raise OptionError(
            f"source does not take {source!r}.",
            "It is a tailrace.enrich.Source.",
            "Use RedisSource, or a class of your own that extends Source.",
        )
    names = (on,) if isinstance(on, str) else tuple(on)
    _check_keys(df, names)
    schema = _schema(df, columns)
    time = _time(df, time)
    source.check(Wanted(names, tuple(schema.names), settings.attempt_seconds))

    from pyspark.sql import functions as f

    given = [*names, time] if time else list(names)
    find = _function(df, source, names, schema, time is not None, settings, metrics)
    found = df.withColumn(_FOUND, find(*(f.col(_quoted(name)) for name in given)))
    if how == "inner":
        found = found.where(f.col(_FOUND).isNotNull())
    added = [f.col(f"{_FOUND}.{_quoted(name)}").alias(name) for name in schema.names]
    return found.select("*", *added).drop(_FOUND)


def _function(
    df: DataFrame,
    source: Source,
    on: tuple[str, ...],
    schema: StructType,
    timed: bool,
    settings: Settings,
    metrics: Metrics | None,
) -> Any:
    """The function of the key columns that gives the records."""
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    from tailrace.enrich.worker import Job, function

    zone = str(df.sparkSession.conf.get("spark.sql.session.timeZone"))
    try:
        said = cloudpickle.dumps(  # type: ignore[no-untyped-call]
            (source, on, schema.json(), timed, zone, settings)
        )
    except Exception as error:
        raise OptionError(
            f"{source.name} cannot be sent to the executors.",
            f"It cannot be pickled: {error}",
            "Keep only settings in a Source, and make connections in its connect().",
        ) from None
    job = Job(hashlib.sha256(said).hexdigest(), source, on, schema, timed, zone, settings)
    made: Any = arrow_udf  # its annotations leave out structs, which it documents
    find = made(function(job, metrics.accumulator if metrics else None), schema)
    # The record of a key may change, so Spark must not compute it in two places.
    return find.asNondeterministic()


def _check_keys(df: DataFrame, on: tuple[str, ...]) -> None:
    from pyspark.sql import types as t

    if not on:
        raise OptionError(
            "There is no key.", "on names no column.", "Name the column that has the key."
        )
    for name in on:
        if name not in df.columns:
            raise SessionError(
                f"There is no column {name}.",
                f"The DataFrame has: {', '.join(df.columns)}.",
                "Name the key's columns by these names.",
            )
        kind = df.schema[name].dataType
        keyed = (t.StringType, t.IntegralType, t.BinaryType, t.BooleanType, t.DateType)
        if not isinstance(kind, (*keyed, t.DecimalType, t.TimestampType, t.TimestampNTZType)):
            raise SessionError(
                f"Column {name} cannot be a key.",
                f"It is of type {kind.simpleString()}, whose values are not compared exactly.",
                "Cast it, for example to string, or choose another column.",
            )


def _schema(df: DataFrame, columns: str | StructType) -> StructType:
    """The columns to add. All of them may be null."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructField, StructType

    from tailrace.enrich.values import reader

    try:
        given = StructType.fromDDL(columns) if isinstance(columns, str) else columns
    except PySparkException as error:
        raise OptionError(
            f"columns does not take {columns!r}.",
            str(error).partition("\n")[0],
            'Write names and types, for example "campaign string, price double".',
        ) from None
    if not isinstance(given, StructType) or not given.fields:
        raise OptionError(
            f"columns does not take {columns!r}.",
            "It names the columns to add, with their types.",
            'Write for example "campaign string, price double".',
        )
    exact = str(df.sparkSession.conf.get("spark.sql.caseSensitive")) == "true"
    taken = {name if exact else name.lower() for name in df.columns}
    for field in given.fields:
        name = field.name if exact else field.name.lower()
        if name in taken:
            raise SessionError(
                f"There would be two columns {field.name}.",
                f"The DataFrame has: {', '.join(df.columns)}; columns: {', '.join(given.names)}.",
                "Rename the one of the DataFrame, with df.withColumnRenamed, or ask for each "
                "column once.",
            )
        taken.add(name)
        reader(field.dataType, "UTC")  # refuses types that have no reader
    return StructType([StructField(field.name, field.dataType, True) for field in given.fields])


def _time(df: DataFrame, time: str | None) -> str | None:
    """The column of the event time, if there is one."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

    times = [
        field
        for field in df.schema.fields
        if isinstance(field.dataType, (TimestampType, TimestampNTZType))
    ]
    if time is None:
        return next((field.name for field in times if _WATERMARK in field.metadata), None)
    if time not in [field.name for field in times]:
        raise SessionError(
            f"There is no column {time} with times.",
            f"Columns of type timestamp: {', '.join(field.name for field in times) or 'none'}.",
            "Name one of these, or leave time out: then the order of arrival counts.",
        )
    return time


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
