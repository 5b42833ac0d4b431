"""The stores under contract and their capabilities.

Problem: one suite for all stores, though Spark's own do not answer every call.
Answer: an explicit table. A test names the capabilities it needs and runs on the stores that have
them; tests/contract/test_unsupported.py asserts that the others refuse the call.
Invariant: tailrace has every capability of any other store, but for TAILRACE_LACKS, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

ROCKSDB_CLASS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS_CLASS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
TAILRACE_CLASS = "tailrace.spark.TailraceStateStoreProvider"

TAILRACE_CONF = "spark.sql.streaming.stateStore.tailrace."
ROCKSDB_CONF = "spark.sql.streaming.stateStore.rocksdb."


class Capability(Enum):
    """A part of the SPI that not every store has."""

    RANGE_ENCODER = auto()
    TIMESTAMP_ENCODERS = auto()
    COLUMN_FAMILIES = auto()
    MULTIPLE_VALUES = auto()
    CHECKPOINT_IDS = auto()
    LOAD_EMPTY = auto()
    # A read through a store that was committed or aborted is refused.
    REFUSES_READS_AFTER_END = auto()
    # numKeys does not count the keys that deleteRange removed.
    COUNTS_DELETED_RANGES = auto()
    # A version committed again after maintenance made a snapshot of it is read as it is now.
    REPLACES_SNAPSHOTS = auto()
    # A version may be loaded for reading while the same provider has a batch open on it.
    READS_DURING_BATCH = auto()


@dataclass(frozen=True)
class StoreKind:
    """A store under contract: its provider, its settings, the capabilities it lacks."""

    name: str
    class_name: str
    confs: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[Capability] = frozenset()

    def can(self, *capabilities: Capability) -> bool:
        return self.lacks.isdisjoint(capabilities)


ROCKSDB_LACKS = frozenset({Capability.COUNTS_DELETED_RANGES, Capability.READS_DURING_BATCH})

HDFS = StoreKind(
    "hdfs",
    HDFS_CLASS,
    {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "3"},
    frozenset(
        {
            Capability.RANGE_ENCODER,
            Capability.TIMESTAMP_ENCODERS,
            Capability.COLUMN_FAMILIES,
            Capability.MULTIPLE_VALUES,
            Capability.CHECKPOINT_IDS,
            Capability.LOAD_EMPTY,
            Capability.REFUSES_READS_AFTER_END,
            Capability.COUNTS_DELETED_RANGES,
            Capability.REPLACES_SNAPSHOTS,
        }
    ),
)

ROCKSDB = StoreKind(
    "rocksdb",
    ROCKSDB_CLASS,
    {
        ROCKSDB_CONF + "changelogCheckpointing.enabled": "false",
        ROCKSDB_CONF + "lockAcquireTimeoutMs": "800",
    },
    ROCKSDB_LACKS,
)

ROCKSDB_CHANGELOG = StoreKind(
    "rocksdb-changelog",
    ROCKSDB_CLASS,
    {
        ROCKSDB_CONF + "changelogCheckpointing.enabled": "true",
        ROCKSDB_CONF + "lockAcquireTimeoutMs": "800",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    },
    ROCKSDB_LACKS,
)

# A partition has one user at a time, as in RocksDB: the state is one table, moved in place.
TAILRACE_LACKS = frozenset({Capability.READS_DURING_BATCH})

TAILRACE = StoreKind(
    "tailrace", TAILRACE_CLASS, {TAILRACE_CONF + "lockTimeout": "800ms"}, TAILRACE_LACKS
)

# The same with a snapshot every other commit, where its default waits for megabytes of changes.
TAILRACE_SNAPSHOTS = StoreKind(
    "tailrace-snapshots",
    TAILRACE_CLASS,
    {**TAILRACE.confs, TAILRACE_CONF + "maxDeltas": "2"},
    TAILRACE_LACKS,
)

# The same with all state in files on this machine after every batch, in segments of a few KiB.
TAILRACE_COLD = StoreKind(
    "tailrace-cold",
    TAILRACE_CLASS,
    {**TAILRACE_SNAPSHOTS.confs, TAILRACE_CONF + "spill": "always"},
    TAILRACE_LACKS,
)

# A restart leaves the records in the newest snapshot, in blocks of a few records, until a key is
# asked for.
TAILRACE_LAZY = StoreKind(
    "tailrace-lazy",
    TAILRACE_CLASS,
    {**TAILRACE_SNAPSHOTS.confs, TAILRACE_CONF + "restart": "always"},
    TAILRACE_LACKS,
)

# Both: what comes from a snapshot may have to go to files at once.
TAILRACE_LAZY_COLD = StoreKind(
    "tailrace-lazy-cold",
    TAILRACE_CLASS,
    {**TAILRACE_LAZY.confs, **TAILRACE_COLD.confs},
    TAILRACE_LACKS,
)

ALL_STORES = (
    HDFS,
    ROCKSDB,
    ROCKSDB_CHANGELOG,
    TAILRACE,
    TAILRACE_SNAPSHOTS,
    TAILRACE_COLD,
    TAILRACE_LAZY,
)
