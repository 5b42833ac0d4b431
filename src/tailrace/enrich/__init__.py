"""Streams joined with a remote key-value table: `tailrace.enrich`, docs/enrich.md, RFC 14.

from tailrace.enrich import RedisSource
"""

from tailrace.enrich.join import enrich
from tailrace.enrich.metrics import Counts, Metrics
from tailrace.enrich.redis_source import RedisSource
from tailrace.enrich.source import Key, Record, Source, Table, Wanted

__all__ = [
    "Counts",
    "Key",
    "Metrics",
    "Record",
    "RedisSource",
    "Source",
    "Table",
    "Wanted",
    "enrich",
]
