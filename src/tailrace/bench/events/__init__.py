"""The events of the bench, as column expressions over an event number.

    source = stream(spark, NexmarkOptions(rate=50_000), rows_per_batch=100_000)
    bids = source.table("bid")

`batch` gives the same events as bounded tables, `write_files` as files for a file source.
Production into Kafka is left out: PySpark does not ship the connector.
"""

from tailrace.bench.events.base import (
    EventOptions,
    Source,
    batch,
    changed,
    parsed,
    stream,
    write_files,
)
from tailrace.bench.events.cluster import ClusterOptions
from tailrace.bench.events.keyed import KeyedOptions, PairedOptions
from tailrace.bench.events.linear_road import LinearRoadOptions
from tailrace.bench.events.nexmark import NexmarkOptions
from tailrace.bench.events.readwrite import ReadWriteOptions
from tailrace.bench.events.settled import SettledNexmarkOptions, SettledReadWriteOptions
from tailrace.bench.events.ysb import YsbOptions, YsbRedisOptions

__all__ = [
    "ClusterOptions",
    "EventOptions",
    "KeyedOptions",
    "LinearRoadOptions",
    "NexmarkOptions",
    "PairedOptions",
    "ReadWriteOptions",
    "SettledNexmarkOptions",
    "SettledReadWriteOptions",
    "Source",
    "YsbOptions",
    "YsbRedisOptions",
    "batch",
    "changed",
    "parsed",
    "stream",
    "write_files",
]
