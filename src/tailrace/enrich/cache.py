"""The cache of records of a remote table: timestamp-aware, and two others to compare it with.

Problem: records that were used and records that were read ahead share one budget. A cache that
ranks by last use drops those that are about to be used first.
Answer: the cache of Keyed Prefetching, section IV-D. Each entry has the event time of the latest
row that used it or is expected to, and the entry with the earliest time is dropped first. A hash
map finds entries, a heap has them in the order of time. The paper's third part, the eviction
buffer, holds dirty entries until they are written back. The table is only read here, so no entry
is dirty and there is no such buffer. `LruCache` drops the entry that was used least recently,
`ClockCache` one that was not used since the hand of a clock passed it.
Invariant: the bytes of the entries are never more than the limit after a `put`. Times of entries
only grow, so the time in the heap is at most that of its entry, and an entry whose two times are
equal when it comes to the top of the heap is the earliest of all.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from tailrace.enrich.source import Key

Values = tuple[Any, ...]
"""A record: the values of the wanted columns, in their order, with their types."""

_OVERHEAD = 300
"""Bytes of an entry beside key and values: its object, its slot in the map, its place in the heap
(measured with tracemalloc, rounded up)."""


class Entry:
    """The record of a key, or the knowledge that the table does not have the key."""

    __slots__ = ("cached", "expires", "key", "passed", "size", "time", "used", "values")

    def __init__(self, key: Key, values: Values | None, time: int, expires: float) -> None:
        self.key = key
        self.values = values
        self.time = time
        self.expires = expires
        self.size = _OVERHEAD + size_of(key) + (size_of(values) if values is not None else 0)
        self.used = False
        self.cached = False
        self.passed = False
        """Not used since the hand of the clock passed it."""


class Cache(ABC):
    """Entries by key, in a budget of bytes. Its owner sees to it that one thread is in it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[Key, Entry] = {}
        self.bytes = 0
        self.evicted = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def average_bytes(self) -> int:
        return self.bytes // len(self._entries) if self._entries else _OVERHEAD

    def get(self, key: Key, now: float, time: int) -> Entry | None:
        """The entry of a key for a row of this event time. An entry that has expired is dropped."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires <= now:
            self._drop(entry)
            self.expired += 1
            return None
        entry.time = max(entry.time, time)
        self._use(entry)
        return entry

    def put(self, entry: Entry) -> None:
        """Adds an entry, or replaces the one of its key, and then drops entries above the limit.

        The new entry itself may be the one that is dropped.
        """
        before = self._entries.get(entry.key)
        if before is not None:
            entry.time = max(entry.time, before.time)
            self._drop(before)
        self._entries[entry.key] = entry
        entry.cached = True
        self.bytes += entry.size
        self._add(entry)
        while self.bytes > self._limit:
            self._drop(self._victim())
            self.evicted += 1

    @abstractmethod
    def _use(self, entry: Entry) -> None:
        """An entry was asked for."""

    @abstractmethod
    def _add(self, entry: Entry) -> None:
        """An entry came in."""

    @abstractmethod
    def _victim(self) -> Entry:
        """The entry that goes next. It is in the cache."""

    def _drop(self, entry: Entry) -> None:
        del self._entries[entry.key]
        entry.cached = False
        self.bytes -= entry.size


class TimestampCache(Cache):
    """Drops the entry with the earliest time."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._order: list[tuple[int, int, Entry]] = []
        self._numbers = itertools.count()

    def _use(self, entry: Entry) -> None:
        """Its place in the order is set right when it comes to the top."""

    def _add(self, entry: Entry) -> None:
        heapq.heappush(self._order, (entry.time, next(self._numbers), entry))
        if len(self._order) > 2 * len(self._entries) + 64:
            self._order = [item for item in self._order if item[2].cached]
            heapq.heapify(self._order)

    def _victim(self) -> Entry:
        while True:
            time, number, entry = heapq.heappop(self._order)
            if not entry.cached:
                continue
            if entry.time <= time:
                return entry
            # Used or expected again since: it belongs further back.
            heapq.heappush(self._order, (entry.time, number, entry))


class LruCache(Cache):
    """Drops the entry that was used least recently."""

    def _use(self, entry: Entry) -> None:
        self._entries[entry.key] = self._entries.pop(entry.key)

    def _add(self, entry: Entry) -> None:
        """A dict has its entries in the order in which they came."""

    def _victim(self) -> Entry:
        return next(iter(self._entries.values()))


class ClockCache(Cache):
    """Drops an entry that was not used since the hand passed it last."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._ring: deque[Entry] = deque()
        """The hand is at its left end."""

    def _use(self, entry: Entry) -> None:
        entry.passed = False

    def _add(self, entry: Entry) -> None:
        entry.passed = True
        self._ring.append(entry)
        if len(self._ring) > 2 * len(self._entries) + 64:
            self._ring = deque(item for item in self._ring if item.cached)

    def _victim(self) -> Entry:
        while True:
            entry = self._ring.popleft()
            if not entry.cached:
                continue
            if entry.passed:
                return entry
            entry.passed = True
            self._ring.append(entry)


CACHES: dict[str, type[Cache]] = {
    "timestamp": TimestampCache,
    "lru": LruCache,
    "clock": ClockCache,
}


def size_of(value: Any) -> int:
    """The bytes of a value with all that is in it."""
    size = sys.getsizeof(value)
    if isinstance(value, (list, tuple)):
        return size + sum(map(size_of, value))
    if isinstance(value, dict):
        return size + sum(size_of(key) + size_of(item) for key, item in value.items())
    return size
