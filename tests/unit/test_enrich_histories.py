"""Random histories of the prefetching manager, with real threads, against a dict.

Problem: rows, reads ahead, answers and evictions meet in any order.
Answer: batches of random keys are expected and taken with a random distance between them, in a
cache that holds some of them, from a table that is lost now and then.
Invariant: every batch gets the records of the dict, no key is asked for twice at the same time,
and nothing is left in flight.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.types import StructType
from support.seeds import SEED

from tailrace.enrich import Key, Record, Source, Table, Wanted
from tailrace.enrich.fetcher import Surroundings
from tailrace.enrich.manager import PrefetchManager
from tailrace.enrich.settings import Settings
from tailrace.supervise import Backoff

KEYS = 60
SCHEMA = StructType().add("name", "string")


class Shaky(Source):
    """A table of the even keys. Connections break; a second request for a key is noticed."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lock = threading.Lock()
        self.being_read: Counter[Key] = Counter()
        self.twice: set[Key] = set()

    def connect(self, wanted: Wanted) -> Table:  # noqa: ARG002 - there is one kind
        return ShakyTable(self)


class ShakyTable(Table):
    def __init__(self, source: Shaky) -> None:
        self.source = source

    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        with self.source.lock:
            self.source.being_read.update(keys)
            self.source.twice |= {key for key in keys if self.source.being_read[key] > 1}
            lost = self.source.draw.random() < 0.1
        # Other threads get their chance; how they use it does not matter.
        threading.Event().wait(0)
        with self.source.lock:
            self.source.being_read.subtract(keys)
        if lost:
            raise ConnectionError("lost")
        return {key: {"name": f"name {key}"} for key in keys if int(str(key)) % 2 == 0}


@pytest.mark.parametrize("number", range(6))
def test_every_batch_gets_its_records(number: int) -> None:
    print(f"TAILRACE_SEED={SEED}")
    draw = random.Random(SEED + number)
    source = Shaky(random.Random(SEED - number))
    settings = Settings(
        connections=draw.randint(1, 4),
        keys_per_request=draw.randint(1, 10),
        cache_memory=f"{draw.randint(1, 20)}k",
        ttl=draw.choice([None, "0s", "1ms", "1min"]),
        missing_ttl=draw.choice([None, "0s", "1ms"]),
    )
    surroundings = Surroundings(backoff=Backoff(first=0.0001, cap=0.0001))
    manager = PrefetchManager(source, ("key",), SCHEMA, "UTC", settings, surroundings)
    ahead: deque[tuple[list[int], Any]] = deque()
    lookups = 0
    try:
        for time in range(300):
            keys = draw.sample(range(KEYS), draw.randint(0, 15))
            times = [time - draw.randint(0, 5) for _ in keys]
            ahead.append((keys, manager.expect(keys, draw.choice([None, times]))))
            while ahead and draw.random() < 0.6:
                taken, expected = ahead.popleft()
                lookups += len(taken)
                assert manager.take(expected) == {
                    key: (f"name {key}",) if key % 2 == 0 else None for key in taken
                }
            assert manager._cache.bytes <= settings.cache_bytes
        for taken, expected in ahead:
            lookups += len(taken)
            assert len(manager.take(expected)) == len(taken)
        counts = manager.report()
        kinds = ("used_before", "prefetched", "late", "misses")
        assert sum(counts.get(kind, 0) for kind in kinds) == lookups
        assert source.twice == set()
        assert manager._in_flight == {}
    finally:
        manager.close()
