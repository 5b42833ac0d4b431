"""The stores that a run compares, and the settings that choose each of them.

Problem: a comparison is worth nothing if a setting of one store leaks into the query of another.
Answer: each query gets a session of its own. On Spark's stores every setting that tailrace makes is
undone; RocksDB has the settings that an expert would give it: it does not count its rows (which
costs a read before each write), with and without changelog, and for joins also in format 4.
Invariant: a session prepared for a store has that store's settings and no other store's.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.errors import TailraceError
from tailrace.options import CONF_PREFIX
from tailrace.session import JARS_CONF, PROVIDER_CLASS, PROVIDER_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_STATE = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB = _SPARK_STATE + "RocksDBStateStoreProvider"
_ROCKSDB_CONF = "spark.sql.streaming.stateStore.rocksdb."
COUNTING = _ROCKSDB_CONF + "trackTotalNumberOfRows"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_CHANGELOG = _ROCKSDB_CONF + "changelogCheckpointing.enabled"


class BenchError(TailraceError):
    """A run cannot be made as it was asked for, or a query of it failed."""


@dataclass(frozen=True)
class Store:
    """One contestant: a state store, and for a baseline also how its query is driven."""

    name: str
    title: str
    note: str
    confs: Mapping[str, str] = field(default_factory=dict)
    floor: bool = False
    """It keeps nothing: its time is the rest of Spark's, and its results are wrong."""
    sparks: bool = False
    """One of Spark's own stores, in vanilla Spark."""
    rocksdb: bool = False
    """One of the settings of RocksDB, of which the best is the rival."""
    joins: bool = False
    """A setting for joins: other workloads do not run on it."""
    own: bool = False
    """tailrace: gets tailrace's settings."""
    deadline: bool = False
    """The size of its batches is bounded so that they end within the trigger interval."""
    background: bool = False
    """Its checkpoint is written behind the query's back."""
    before: bool = False
    """Another build of the engine, with which this one is compared."""
    near: bool = False
    """Its checkpoint is on the local disk, also where --remote puts the others' far away."""

    @property
    def counts(self) -> bool:
        """Whether it knows how many rows it has; RocksDB that does not says 0."""
        return self.confs.get(COUNTING) != "false"


ROCKSDB = Store(
    "rocksdb",
    "RocksDB",
    "Spark's RocksDB store: a snapshot is uploaded with every batch; it does not count its rows",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "false", COUNTING: "false"},
    sparks=True,
    rocksdb=True,
)
ROCKSDB_CHANGELOG = Store(
    "rocksdb-changelog",
    "RocksDB, changelog",
    "Spark's RocksDB store with changelog checkpointing; it does not count its rows",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "true", COUNTING: "false"},
    sparks=True,
    rocksdb=True,
)
ROCKSDB_COUNTING = Store(
    "rocksdb-counting",
    "RocksDB, counting rows",
    "Spark's RocksDB store with its defaults: it reads before each write to count its rows",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "false", COUNTING: "true"},
    sparks=True,
    rocksdb=True,
)
ROCKSDB_CHANGELOG_COUNTING = Store(
    "rocksdb-changelog-counting",
    "RocksDB, changelog, counting rows",
    "the same with changelog checkpointing",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "true", COUNTING: "true"},
    sparks=True,
    rocksdb=True,
)
ROCKSDB_FORMAT4 = Store(
    "rocksdb-format4",
    "RocksDB, join format 4",
    "joins only: rocksdb with the state format of joins that is made for eviction by time",
    {**ROCKSDB.confs, _JOIN_FORMAT: "4"},
    sparks=True,
    rocksdb=True,
    joins=True,
)
ROCKSDB_CHANGELOG_FORMAT4 = Store(
    "rocksdb-changelog-format4",
    "RocksDB, changelog, join format 4",
    "joins only: rocksdb-changelog with that format",
    {**ROCKSDB_CHANGELOG.confs, _JOIN_FORMAT: "4"},
    sparks=True,
    rocksdb=True,
    joins=True,
)
HDFS = Store(
    "hdfs",
    "HDFSBacked",
    "Spark's store on the JVM's heap",
    {PROVIDER_CONF: _SPARK_STATE + "HDFSBackedStateStoreProvider"},
    sparks=True,
)
TAILRACE = Store(
    "tailrace", "tailrace", "tailrace with its defaults", {PROVIDER_CONF: PROVIDER_CLASS}, own=True
)
TAILRACE_BEFORE = Store(
    "tailrace-before",
    "tailrace, before",
    "tailrace with its defaults, of another checkout: tailrace bench compare",
    {PROVIDER_CONF: PROVIDER_CLASS},
    own=True,
    before=True,
)
TAILRACE_SYNC = Store(
    "tailrace-sync",
    "tailrace, synchronous",
    "tailrace with commit=sync: each batch waits until its state is written",
    {PROVIDER_CONF: PROVIDER_CLASS, CONF_PREFIX + "commit": "sync"},
    own=True,
)
TAILRACE_NO_PREFETCH = Store(
    "tailrace-no-prefetch",
    "tailrace, no prefetching",
    "tailrace with prefetch=off: a spilled record is read with the look-up that needs it",
    {PROVIDER_CONF: PROVIDER_CLASS, CONF_PREFIX + "prefetch": "off"},
    own=True,
)
TAILRACE_LAZY = Store(
    "tailrace-lazy",
    "tailrace, lazy restart",
    "tailrace with restart=lazy: a restart reads records when they are asked for",
    {PROVIDER_CONF: PROVIDER_CLASS, CONF_PREFIX + "restart": "lazy"},
    own=True,
)
TAILRACE_LOCAL = Store(
    "tailrace-local",
    "tailrace, local checkpoint",
    "tailrace with its defaults and a local checkpoint beside a run with --remote",
    {PROVIDER_CONF: PROVIDER_CLASS},
    own=True,
    near=True,
)
NONE = Store(
    "none",
    "floor",
    "keeps nothing: what the rest of Spark costs; its results are wrong and never checked",
    {PROVIDER_CONF: "tailrace.bench.NothingStateStoreProvider"},
    floor=True,
)
ZSTREAM = Store(
    "zstream",
    "zStream (deadline)",
    "RocksDB with changelog checkpointing; a deadline bounds the size of a batch at run time",
    ROCKSDB_CHANGELOG.confs,
    deadline=True,
)
ASYNC_CHECKPOINT = Store(
    "async-checkpoint",
    "asynchronous checkpoint",
    "RocksDB with a snapshot per batch, whose upload alone happens in the background. Spark's "
    "asyncProgressTrackingEnabled is refused for stateful queries, so a write-behind file system "
    "of the bench stands in for it",
    ROCKSDB.confs,
    background=True,
)

STORES = {
    store.name: store
    for store in (
        ROCKSDB,
        ROCKSDB_CHANGELOG,
        ROCKSDB_FORMAT4,
        ROCKSDB_CHANGELOG_FORMAT4,
        ROCKSDB_COUNTING,
        ROCKSDB_CHANGELOG_COUNTING,
        HDFS,
        TAILRACE,
        TAILRACE_SYNC,
        TAILRACE_NO_PREFETCH,
        TAILRACE_LAZY,
        TAILRACE_LOCAL,
        NONE,
    )
}
BASELINES = {store.name: store for store in (ZSTREAM, ASYNC_CHECKPOINT)}
EVERY = {**STORES, **BASELINES, TAILRACE_BEFORE.name: TAILRACE_BEFORE}
"""All that a result can have."""


def chosen(names: Sequence[str], baselines: Sequence[str] = ()) -> tuple[Store, ...]:
    """The stores of these names, in this order."""
    stores = [_named(name, STORES, "store", "--stores") for name in names]
    stores += [_named(name, BASELINES, "baseline", "--baseline") for name in baselines]
    if not stores:
        raise BenchError(
            "There is no store to run.",
            "--stores is empty.",
            f"Name some of {', '.join(STORES)}, separated by commas.",
        )
    if len({store.name for store in stores}) < len(stores):
        raise BenchError(
            "A store was named twice.",
            f"--stores is {','.join(names)}.",
            "Name each store once; --repeat runs all of them again.",
        )
    return tuple(stores)


def _named(name: str, known: Mapping[str, Store], kind: str, argument: str) -> Store:
    if name in known:
        return known[name]
    closest = difflib.get_close_matches(name, known, n=1)
    raise BenchError(
        f"There is no {kind} {name!r}.",
        f"The values of {argument} are: {', '.join(known)}.",
        f"Did you mean {closest[0]}?" if closest else "Use one of these.",
    )


def bounded(memory_limit: str) -> dict[str, str]:
    """Settings of RocksDB for the memory that tailrace has in the same run, such as "128m".

    Spark bounds the RocksDB instances of a process together, and takes the size of the first.
    """
    return {
        _ROCKSDB_CONF + "boundedMemoryUsage": "true",
        _ROCKSDB_CONF + "maxMemoryUsageMB": memory_limit.removesuffix("m"),
    }


def session_for(
    spark: SparkSession, store: Store, tailrace_confs: Mapping[str, str]
) -> SparkSession:
    """A session in which a query runs on this store and on nothing of another one."""
    from pyspark.errors import AnalysisException

    session = spark.newSession()
    for key, value in tailrace_confs.items():
        if key == JARS_CONF:
            continue
        with contextlib.suppress(AnalysisException):  # a setting of the whole JVM: all have it
            if store.own:
                session.conf.set(key, value)
            else:
                session.conf.unset(key)
    for key, value in store.confs.items():
        session.conf.set(key, value)
    return session
