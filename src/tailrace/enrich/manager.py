"""The prefetching manager: which keys are there, which are on their way, which must be asked for.

Problem: batches of rows that follow each other need many of the same keys. Each should be read
once, ahead of the rows, and be fresh when it is used.
Answer: section IV-C of Keyed Prefetching. `expect` takes the keys of a batch that is to come: a key
is found in the cache, or is in flight, or a fetch begins. `take` gives the records when the batch's
turn has come, and waits for those that are not there yet.
Invariant: a key is in flight once at most. A record that `take` gives was read less than its time
to live ago, or after the rows that need it had come. A batch holds on to the entries it expects,
so a cache that is too small costs further requests, never a result.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from tailrace.enrich.cache import CACHES, Entry, Values
from tailrace.enrich.fetcher import Fetch, Fetcher, Surroundings
from tailrace.enrich.settings import Settings
from tailrace.enrich.source import Key, Record, Source, Wanted
from tailrace.enrich.values import reader
from tailrace.errors import EnrichmentError


class Expected:
    """The keys of one batch that is to come, and where each of them is."""

    def __init__(self, ahead: bool) -> None:
        self.ahead = ahead
        self.found: dict[Key, Entry] = {}
        self.fetches: dict[Fetch, list[Key]] = {}

    @property
    def reading(self) -> int:
        """How many of them were not in the cache."""
        return sum(map(len, self.fetches.values()))


class PrefetchManager:
    """Cache and fetcher of one table in one Python worker. The rows' thread calls it."""

    def __init__(
        self,
        source: Source,
        on: tuple[str, ...],
        columns: StructType,
        zone: str,
        settings: Settings,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._source = source
        self._settings = settings
        self._around = surroundings or Surroundings()
        self._readers = {field.name: reader(field.dataType, zone) for field in columns.fields}
        wanted = Wanted(on, tuple(self._readers), settings.attempt_seconds)
        self._fetcher = Fetcher(source, wanted, settings, self._deliver, self._settle, self._around)
        self._lock = threading.Lock()
        self._cache = CACHES[settings.cache](settings.cache_bytes)
        self._in_flight: dict[Key, Fetch] = {}
        self._order = itertools.count()
        self._counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()

    @property
    def broken(self) -> bool:
        return self._fetcher.broken

    def has_room(self, keys: int) -> bool:
        """Whether there may be more than these keys whose records come and wait for their rows.

        They have half the budget: the cache does not count them once it has dropped them.
        """
        with self._lock:
            return keys * self._cache.average_bytes * 2 <= self._settings.cache_bytes

    def expect(
        self, keys: Sequence[Key], times: Sequence[int] | None, ahead: bool = True
    ) -> Expected:
        """Sees to it that these keys are read. Without `times` they rank by the order of calls."""
        expected = Expected(ahead)
        fresh: list[Fetch] = []
        with self._lock:
            now = self._around.now()
            at = times or itertools.repeat(next(self._order), len(keys))
            begun: dict[Key, int] = {}
            for key, time in zip(keys, at, strict=True):
                entry = self._cache.get(key, now, time)
                if entry is not None:
                    expected.found[key] = entry
                    continue
                fetch = self._in_flight.get(key)
                if fetch is None:
                    begun[key] = time
                else:
                    fetch.times[key] = max(fetch.times[key], time)
                    expected.fetches.setdefault(fetch, []).append(key)
            asked = list(begun)
            for first in range(0, len(asked), self._settings.keys_per_request):
                part = asked[first : first + self._settings.keys_per_request]
                fetch = Fetch({key: begun[key] for key in part})
                self._in_flight.update(dict.fromkeys(part, fetch))
                expected.fetches[fetch] = part
                fresh.append(fetch)
        for fetch in fresh:
            self._fetcher.submit(fetch)
        return expected

    def take(self, expected: Expected) -> dict[Key, Values | None]:
        """The records of an expected batch: None for keys that the table does not have."""
        entries = self._arrived(expected)
        found = dict(expected.found)
        now = self._around.now()
        stale = [key for key, entry in found.items() if entry.expires <= now]
        if stale:  # they waited too long for their rows
            again = self.expect(stale, [found.pop(key).time for key in stale], ahead=False)
            entries |= self._arrived(again)
            found |= again.found
        with self._lock:
            for entry in found.values():
                self._counts["used_before" if entry.used else "prefetched"] += 1
            entries |= found
            for entry in entries.values():
                entry.used = True
                self._counts["missing"] += entry.values is None
        return {key: entry.values for key, entry in entries.items()}

    def count(self, **counts: int) -> None:
        with self._lock:
            self._counts.update(counts)

    def report(self) -> dict[str, int]:
        """The counts since the last report."""
        with self._lock:
            present = self._counts.copy()
            present["retries"] = self._fetcher.retries
            present["evicted"] = self._cache.evicted
            present["expired"] = self._cache.expired
            news = {name: n - self._reported[name] for name, n in present.items()}
            self._reported = present
        return {name: n for name, n in news.items() if n}

    def close(self) -> None:
        self._fetcher.close()

    def _arrived(self, expected: Expected) -> dict[Key, Entry]:
        """Waits for all fetches of a batch, and counts each key by where it was."""
        entries: dict[Key, Entry] = {}
        kinds: Counter[str] = Counter()
        for fetch, keys in expected.fetches.items():  # before any of them is waited for
            there = "prefetched" if fetch.done.is_set() else "late"
            kinds[there if expected.ahead else "misses"] += len(keys)
        begin = self._around.now()
        for fetch, keys in expected.fetches.items():
            self._fetcher.wait(fetch)
            entries.update((key, fetch.entries[key]) for key in keys)
        if expected.fetches:
            kinds["waited_micros"] = round((self._around.now() - begin) * 1e6)
        self.count(**kinds)
        return entries

    def _settle(self, fetch: Fetch) -> None:
        with self._lock:
            for key in fetch.times:
                del self._in_flight[key]

    def _deliver(self, fetch: Fetch, answer: Mapping[Any, Record | None]) -> None:
        """Takes an answer in. Called by a thread of the fetcher, once per fetch that succeeded."""
        read = {key: self._read(key, answer.get(key)) for key in list(fetch.times)}
        now = self._around.now()
        with self._lock:
            for key, values in read.items():
                life = self._settings
                ttl = life.missing_ttl_seconds if values is None else life.ttl_seconds
                entry = Entry(key, values, fetch.times[key], now + ttl)
                fetch.entries[key] = entry
                self._cache.put(entry)
                self._counts["bytes_read"] += entry.size
            self._counts["requests"] += 1
            self._counts["keys_read"] += len(read)

    def _read(self, key: Key, record: Record | None) -> Values | None:
        if record is None:
            return None
        values = []
        for name, read in self._readers.items():
            value = record.get(name)
            try:
                values.append(read(value))
            except (TypeError, ValueError) as error:
                raise EnrichmentError(
                    f"Column {name} of key {key!r} in {self._source.name} has the value "
                    f"{_short(value)}, which is not of the column's type.",
                    str(error),
                    "Correct the value in the table, or declare the column as string.",
                ) from None
        return tuple(values)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
