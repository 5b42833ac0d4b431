"""Keyed prefetching against its rivals: `tailrace bench prefetch [QUERY...]`.

Problem: what prefetching gains shows where state is much larger than its cache, where reads go to
the disk, and in the slowest batches.
Answer: queries whose state is there before anything is measured, at least ten times as large as
the memory; files past the page cache (`cold_io="direct"`); each contestant in a process of its own
with a memory of its own, in turns of a few batches.
Invariant: all contestants get the same events; the results of their queries are compared.

Memory follows the number of keys, so that a small run spills as a large one does.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tailrace
from tailrace.bench import contest, runner, sweeps
from tailrace.bench.events import (
    EventOptions,
    SettledNexmarkOptions,
    SettledReadWriteOptions,
    YsbRedisOptions,
    changed,
    parsed,
)
from tailrace.bench.growth import PreloadedKeys
from tailrace.bench.plan import Job, Plan, Sizes, option_pairs
from tailrace.bench.rivals import KEYED, RIVALS
from tailrace.bench.screen import Screen
from tailrace.bench.stores import ROCKSDB, ROCKSDB_CHANGELOG, BenchError, Store
from tailrace.bench.sweeps import KEYS as SWEPT_KEYS
from tailrace.bench.sweeps import SWEEPS
from tailrace.bench.workloads import WORKLOADS, QueryOptions

TURN = 4
"""Batches of a turn: most of what a store leaves to its threads falls into its own turn."""
INTERLEAVING = (
    "a process for each contestant, with a JVM and a memory of its own; turns of "
    f"{TURN} batches, and who is first changes with every turn"
)
NOTE = (
    "each contestant has its memory for itself; its state is there before anything is measured. "
    "Files of spilled state are read and written past the page cache (cold_io=direct); beside "
    "RocksDB, for which Spark has no such setting, both go through the page cache. Records of "
    "YSB come from a Redis server that is made to answer a millisecond later; the caches of LRU "
    "and Clock ask it for one key at a time. In memory when asked for: of the records that were "
    "not in the cache, those that had been read when the look-up came. Hints and shuffled bytes "
    "are those on the wire, the shuffle compressed as Spark does"
)
SIZES = Sizes(rows=20_000, batches=32, warmup=8, rounds=4)
PRELOADS = 3
"""A batch of the preload makes state of this part of the memory; its changes are kept there, too,
until they are written. A join has four stores, which share the memory."""
LEAST_MEGABYTES = 4
LARGER = 10
"""How many times as large as its memory the state is, at least."""
VIEWS = 3
"""One event of YSB in so many is a view, whose advertisement is looked up."""
ARROW_BATCHES = 8
"""Of a task of the enrichment, about: with one alone there would be nothing to read ahead."""


@dataclasses.dataclass(frozen=True)
class Query:
    """One of the suite's queries, and its state."""

    workload: str
    keys: int
    """Of its state, where --keys does not say it."""
    record_bytes: int
    """What a key's records take where all state is in memory, without slots; measured."""

    rows: int | None = None
    """Of a batch, where --rows does not say it. The records that a batch changes stay in memory
    with it and with the next one: there are fewer where they are large, or a join keeps its rows.
    """
    megabytes: int | None = None
    """Of memory, where --limit and --keys do not say it. None: a tenth of the state."""

    def events(self, keys: int) -> EventOptions:
        if self.workload == "update":
            return PreloadedKeys(keys=keys)
        if self.workload == "readwrite":
            return SettledReadWriteOptions(keys=keys)
        if self.workload == "ysb-redis":
            campaigns = max(1, keys // 10)
            cache = max(64, keys * self.record_bytes // LARGER // 2 // 1024)
            return YsbRedisOptions(campaigns=campaigns, round_trip_ms=1, cache_kib=cache)
        if self.workload == "q18":
            return SettledNexmarkOptions(auctions=max(1, keys // 4), bidders=4)
        if self.workload == "q19":
            return SettledNexmarkOptions(auctions=keys, bids=2)
        return SettledNexmarkOptions(auctions=keys, bids=0)

    @property
    def joins(self) -> bool:
        return self.workload in ("q13-state", "q20")

    @property
    def preloads(self) -> int:
        return PRELOADS * (2 if self.joins else 1)

    @property
    def query(self) -> QueryOptions:
        """With a delay of nothing a bid leaves the state of a join with the next batch."""
        query = WORKLOADS[self.workload].query
        return dataclasses.replace(query, delay=0) if self.joins else query


QUERIES = {
    query.workload: query
    for query in (
        Query("q13-state", 1_000_000, 120, rows=8_000),
        Query("q18", 800_000, 270),
        Query("q19", 250_000, 810, rows=8_000),
        Query("q20", 300_000, 540, rows=8_000),
        Query("ysb-redis", 100_000, 460),
        Query("readwrite", 1_000_000, 163),
    )
}
UPDATE = Query("update", 4_000_000, 65, rows=200_000, megabytes=64)
"""Of uniform keys, with a quarter of the memory that its state takes: against RocksDB alone."""


def contests(arguments: argparse.Namespace) -> list[tuple[Job, Plan]]:
    """Each query with the plan that it runs by."""
    options = option_pairs(arguments.option)
    stores = entrants(arguments)
    suite, usual = "prefetch", SIZES
    if arguments.sweep is None:
        jobs = [job_of(query, arguments, options) for query in _queries(arguments)]
    else:
        sweep = SWEEPS[arguments.sweep]
        arguments = argparse.Namespace(**{**vars(arguments), "keys": arguments.keys or SWEPT_KEYS})
        jobs = sweeps.jobs(sweep, lambda name: job_of(QUERIES[name], arguments, options))
        suite, usual = f"prefetch-{arguments.sweep}", sweeps.SIZES
    return [(job, Plan((job,), stores, suite=suite, **sizes(arguments, usual))) for job in jobs]


def plan_of(arguments: argparse.Namespace) -> Plan:
    """All queries in one plan."""
    found = contests(arguments)
    return dataclasses.replace(found[0][1], jobs=tuple(job for job, _ in found))


def settings(plan: Plan) -> dict[str, str]:
    """Of the session of a side."""
    rows = min(job.rows for job in plan.jobs) // VIEWS // plan.partitions // ARROW_BATCHES
    return {
        **runner.settings(plan),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(max(1, rows)),
    }


def entrants(arguments: argparse.Namespace) -> tuple[Store, ...]:
    """Keyed prefetching and its rivals, or those that were named; RocksDB if it was asked for."""
    known = {store.name: store for store in RIVALS}
    if arguments.rocksdb:
        known = {KEYED.name: KEYED, ROCKSDB.name: ROCKSDB}
        known[ROCKSDB_CHANGELOG.name] = ROCKSDB_CHANGELOG
    if arguments.stores is None:
        some = SWEEPS[arguments.sweep].stores if arguments.sweep else None
        return tuple(store for name, store in known.items() if some is None or name in some)
    names = [name.strip() for name in arguments.stores.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise _unknown("contestant", name, list(known))
    if not names or len(set(names)) < len(names):
        raise BenchError(
            "--stores names no contestant, or one twice.",
            f"It is {arguments.stores!r}.",
            f"Name some of {', '.join(known)}, each once.",
        )
    return tuple(known[name] for name in names)


def cold_io(arguments: argparse.Namespace) -> str:
    """RocksDB reads through the page cache whatever is set, so there both sides do."""
    return "buffered" if arguments.rocksdb else "direct"


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    confs = tailrace.confs()
    sides = [(store, confs) for store in entrants(arguments)]
    document, _ = contest.run(sys.modules[__name__], arguments, sides, contest.How(TURN), screen)
    document["settings"] |= {"interleaving": INTERLEAVING, "processes": len(sides)}
    return document


def job_of(query: Query, arguments: argparse.Namespace, options: Mapping[str, str]) -> Job:
    """A query with its state and its memory, as the command line has them."""
    keys = arguments.keys or query.keys
    workload = WORKLOADS[query.workload]
    events = changed(query.events(keys), seed=arguments.seed)
    names = {field.name for field in dataclasses.fields(events)}
    events = parsed(events, {name: text for name, text in options.items() if name in names})
    rows = arguments.rows or query.rows or SIZES.rows or workload.rows_per_batch
    if query.workload == "ysb-redis":
        return Job(workload, events, query.query, rows, parameters={"memory": _cache_of(events)})
    share = keys * query.record_bytes // LARGER // 1_000_000
    if query.megabytes:
        share = query.megabytes * keys // query.keys
    limit = arguments.limit or max(LEAST_MEGABYTES, share)
    assert isinstance(events, (SettledNexmarkOptions, SettledReadWriteOptions, PreloadedKeys))
    return Job(
        workload,
        events,
        query.query,
        rows,
        preload=events.preload,
        preload_batch=max(1, limit * 1_000_000 // query.record_bytes // query.preloads),
        parameters={"memory": f"{limit} MB of memory"},
        options={"memory_limit": f"{limit}m", "cold_io": cold_io(arguments)},
    )


def _cache_of(events: EventOptions) -> str:
    assert isinstance(events, YsbRedisOptions)
    return f"caches of {events.cache_kib / 1024:.1f} MB, {events.ads:,} records"


def sizes(arguments: argparse.Namespace, usual: Sizes) -> dict[str, Any]:
    """What a plan takes from the command line."""
    from tailrace.cli._numbers import cores

    def given(name: str, default: int) -> int:
        value = getattr(arguments, name)
        return default if value is None else int(value)

    batches = given("batches", usual.batches)
    return {
        "batches": batches,
        "warmup": given("warmup", usual.warmup),
        "rounds": min(given("rounds", usual.rounds), batches),
        "repeat": given("repeat", 1),
        "partitions": given("partitions", cores()),
        "cores": given("cores", cores()),
        "memory": arguments.memory,
        "seed": arguments.seed,
        "check": not arguments.no_check,
    }


def _queries(arguments: argparse.Namespace) -> list[Query]:
    """Those that were named, or all. RocksDB has nothing to do with a table in Redis."""
    known = dict(QUERIES)
    if arguments.rocksdb:
        del known["ysb-redis"]
        known[UPDATE.workload] = UPDATE
    texts = arguments.workloads[1:]
    wanted = [part.lower() for text in texts for part in text.split(",") if part]
    for name in wanted:
        if name not in known:
            raise _unknown("query", name, list(known))
    return [known[name] for name in dict.fromkeys(wanted or known)]


def _unknown(kind: str, name: str, known: Sequence[str]) -> BenchError:
    closest = difflib.get_close_matches(name, known, n=1)
    return BenchError(
        f"bench prefetch has no {kind} {name!r}.",
        f"There are: {', '.join(known)}.",
        f"Did you mean {closest[0]}?" if closest else "Use some of these.",
    )
