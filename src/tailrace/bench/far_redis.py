"""A Redis server that is far away, on this machine.

Problem: a server on the loopback device answers at once, and hides the cost of waiting.
Answer: every request waits for the time of a round trip before it is made.
Invariant: the answers are those of the server. Requests of several connections wait at the same
time, as they would on a line.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.enrich import Key, Record, RedisSource, Table, Wanted


@dataclasses.dataclass(frozen=True)
class FarRedisSource(RedisSource):
    """The same table, `round_trip_ms` away."""

    round_trip_ms: int = 0

    def connect(self, wanted: Wanted) -> Table:
        return _FarTable(super().connect(wanted), self.round_trip_ms / 1000)


class _FarTable(Table):
    def __init__(self, table: Table, seconds: float) -> None:
        self._table = table
        self._seconds = seconds

    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        time.sleep(self._seconds)
        return self._table.get_many(keys)

    def close(self) -> None:
        self._table.close()
