"""The contestants of `tailrace bench prefetch`: keyed prefetching and what it is compared with.

Problem: a cache policy and a way of reading are settings of one engine, and of the enrichment that
stands for a remote table.
Answer: a table: each contestant is a store of the bench with these settings for both.
Invariant: between two of them nothing differs but the settings in this table.

The first three are the paper's baselines (section VI). An LRU or Clock cache reads a record with
the look-up, or the row, that needs it. Asynchronous I/O reads what the present rows need many at
a time, while other rows go on.
"""

from __future__ import annotations

import json
from typing import Any

from tailrace.bench.stores import Store
from tailrace.bench.workloads.ysb import ENRICHMENT
from tailrace.options import CONF_PREFIX
from tailrace.session import PROVIDER_CLASS, PROVIDER_CONF

ONE_BY_ONE = {"look_ahead": 0, "connections": 1, "keys_per_request": 1}
"""A round trip for each key that is not in the cache."""


def _rival(
    name: str, title: str, note: str, options: dict[str, str], enrichment: dict[str, Any]
) -> Store:
    confs = {PROVIDER_CONF: PROVIDER_CLASS, ENRICHMENT: json.dumps(enrichment)}
    confs |= {CONF_PREFIX + option: value for option, value in options.items()}
    return Store(name, title, note, confs, own=True)


LRU = _rival(
    "cache-lru",
    "LRU cache",
    "keeps what was used last; a record that is not there is read with its look-up",
    {"cache": "lru", "prefetch": "off", "hints": "off"},
    {"cache": "lru", **ONE_BY_ONE},
)
CLOCK = _rival(
    "cache-clock",
    "Clock cache",
    "the same with the clock's approximation of last use",
    {"cache": "clock", "prefetch": "off", "hints": "off"},
    {"cache": "clock", **ONE_BY_ONE},
)
ASYNC = _rival(
    "async-io",
    "asynchronous I/O",
    "records are read when rows that need them are there, many at a time; other rows go on",
    {"cache": "lru", "prefetch": "demand", "hints": "off"},
    {"cache": "lru", "look_ahead": 0},
)
KEYED = _rival(
    "tailrace",
    "keyed prefetching",
    "tailrace with its defaults: look-ahead, hints, timestamp-aware cache",
    {},
    {"cache": "timestamp"},
)
BASELINES = (LRU, CLOCK, ASYNC)
RIVALS = (*BASELINES, KEYED)
