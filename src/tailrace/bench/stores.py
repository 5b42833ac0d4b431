"""The stores that a run compares, and the settings that choose each of them.

Problem: a comparison is worth nothing if a setting of one store leaks into the query of another.
Answer: each query gets a session of its own. Spark's stores run on Spark's defaults: every setting
that tailrace makes is taken back there, and only the provider is chosen.
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
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


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
    """One of the two settings of which the better is the rival."""
    own: bool = False
    """tailrace: gets tailrace's settings."""
    deadline: bool = False
    """The size of its batches is bounded so that they end within the trigger interval."""
    background: bool = False
    """Its checkpoint is written behind the query's back."""
    near: bool = False
    """Its checkpoint is on the local disk, also where --remote puts the others' far away."""


ROCKSDB = Store(
    "rocksdb",
    "RocksDB",
    "Spark's RocksDB store with its defaults: a snapshot is uploaded with every batch",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "false"},
    sparks=True,
    rocksdb=True,
)
ROCKSDB_CHANGELOG = Store(
    "rocksdb-changelog",
    "RocksDB, changelog",
    "Spark's RocksDB store with changelog checkpointing",
    {PROVIDER_CONF: _ROCKSDB, _CHANGELOG: "true"},
    sparks=True,
    rocksdb=True,
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
TAILRACE_SYNC = Store(
    "tailrace-sync",
    "tailrace, synchronous",
    "tailrace with commit=sync: each batch waits until its state is written",
    {PROVIDER_CONF: PROVIDER_CLASS, CONF_PREFIX + "commit": "sync"},
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
    for store in (ROCKSDB, ROCKSDB_CHANGELOG, HDFS, TAILRACE, TAILRACE_SYNC, TAILRACE_LOCAL, NONE)
}
BASELINES = {store.name: store for store in (ZSTREAM, ASYNC_CHECKPOINT)}


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
