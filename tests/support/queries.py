"""A query as its stores see it: it announces a run and publishes its batches.

Problem: stores that a test commits by itself write changes files of their own; packs come only from
queries, and a query takes seconds.
Answer: `Query` stands for a query's driver towards its stores (tests/jvm/QueryHarness.scala).
Ledger, pipeline and files are the session's real ones.
Invariant: when `commit` returns, the batch is published.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support.fixtures import Opener
from support.harness import HarnessJar, Provider, Remote, Shape

Entries = Iterable[tuple[Any, Any]]


class QueryHarness(Remote):
    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "QueryHarness")


class Query:
    """One run of a query on the checkpoint of an opener."""

    def __init__(
        self,
        harness: QueryHarness,
        opener: Opener,
        shape: Shape,
        *,
        partitions: int = 2,
        committed: int = -1,
        confs: Mapping[str, str] | None = None,
    ) -> None:
        self.harness = harness
        self.root = opener.directory.parent
        self.run = str(uuid.uuid4())
        harness.call("begin", root=str(self.root), run=self.run, committed=committed)
        self.stores: list[Provider] = [
            opener(shape, partition=partition, confs=confs, run_id=self.run)
            for partition in range(partitions)
        ]

    @property
    def packs(self) -> Path:
        return self.root / "state" / "tailrace"

    def apply(self, batch: int, *entries: Entries, force_snapshot: bool = False) -> None:
        """The batch's tasks: one per store, each with its own entries."""
        for store, its_entries in zip(self.stores, entries, strict=True):
            opened = store.load(batch, force_snapshot=force_snapshot)
            opened.put_all(its_entries)
            assert opened.commit() == batch + 1

    def publish(self, batch: int) -> None:
        self.harness.call("publish", root=str(self.root), run=self.run, batch=batch)

    def commit(self, batch: int, *entries: Entries, force_snapshot: bool = False) -> Path:
        """A whole batch; returns its pack."""
        self.apply(batch, *entries, force_snapshot=force_snapshot)
        self.publish(batch)
        (pack,) = self.packs_of(batch + 1)
        return pack

    def packs_of(self, version: int) -> list[Path]:
        return sorted(self.packs.glob(f"{version}-*.pack.tr"))

    def remove_packs_after(self, version: int) -> None:
        """As `tailrace rollback` removes the state of batches that are to run again."""
        for pack in self.packs.glob("*.pack.tr"):
            if int(pack.name.partition("-")[0]) > version:
                pack.unlink()

    def stop(self) -> None:
        self.harness.call("await_quiet", root=str(self.root))
        for store in self.stores:
            store.close()
