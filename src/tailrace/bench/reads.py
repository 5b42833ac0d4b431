"""What a contestant's tasks waited for, and what it had read before: figures of `bench prefetch`.

Problem: a store counts from the moment it was opened, an enrichment counts in other words, and
both count more than a reader can use.
Answer: per contestant, over its measured batches: the time its tasks waited for records, where the
records were when they were asked for, and the bytes of hints beside those of the shuffle.
Invariant: a counter that counts from the beginning is told as a difference between two batches,
and so are the rows and bytes that it is divided by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Reads:
    """One contestant's reads of state that was not in its cache."""

    waited_millis: float
    """Per batch, over all tasks."""
    asked: int
    """Records that were not in the cache: arrived in time, late, or read by the look-up itself."""
    in_memory: int
    """Of them, those that were there when they were asked for."""
    in_vain: int
    hint_bytes: int
    shuffled_bytes: int
    larger: float | None
    """How many times as large as its memory the state was at the end."""

    @property
    def found(self) -> float | None:
        """Share of the cold reads whose record was in memory when it was asked for."""
        return self.in_memory / self.asked if self.asked else None

    @property
    def hints(self) -> float:
        """Bytes of hints as a share of the shuffled ones."""
        return self.hint_bytes / self.shuffled_bytes if self.shuffled_bytes else 0.0


def reads(rows: Rows, memory_limit: int | None = None) -> Reads | None:
    """The figures of a contestant; None if it counts none of them, as RocksDB does not."""
    metrics = [row["custom_metrics"] for row in rows]
    shuffled = sum(row.get("shuffled_bytes", 0) for row in rows[1:])

    def grown(name: str) -> int:
        return int(max(0, metrics[-1].get(name, 0) - metrics[0].get(name, 0)))

    if "enrich/rows" in metrics[-1]:
        in_memory = grown("enrich/prefetched")
        return Reads(
            waited_millis=grown("enrich/waited_micros") / 1000 / max(1, len(rows) - 1),
            asked=in_memory + grown("enrich/late") + grown("enrich/misses"),
            in_memory=in_memory,
            in_vain=0,
            hint_bytes=0,
            shuffled_bytes=shuffled,
            larger=None,
        )
    if "tailraceColdWaitTime" not in metrics[-1]:
        return None
    in_memory = grown("tailracePrefetchHits")
    state = metrics[-1]["tailraceColdBytes"] + metrics[-1]["tailraceLiveBytes"]
    return Reads(
        waited_millis=sum(each["tailraceColdWaitTime"] for each in metrics) / len(rows),
        asked=in_memory + grown("tailracePrefetchLate") + grown("tailracePrefetchMisses"),
        in_memory=in_memory,
        in_vain=grown("tailracePrefetchInVain"),
        hint_bytes=grown("tailraceHintBytes"),
        shuffled_bytes=shuffled,
        larger=state / memory_limit if memory_limit else None,
    )


def memory_of(run: Mapping[str, Any]) -> int | None:
    """The memory of each contestant of a run, in bytes."""
    limit = str(run.get("options", {}).get("memory_limit", ""))
    return int(limit.removesuffix("m")) << 20 if limit.endswith("m") else None
