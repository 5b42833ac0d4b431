"""Metrics of accesses, of hits by their kind, and of hints: each has the right value.

Problem: a metric that is above 0 may still count something else.
Answer: a store whose records are all in files, accesses of every kind in known numbers, and meters
that are told known times.
Invariant: a look-up of a record is counted once: as used before, read ahead, late, or a miss.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.fixtures import Opener
from support.harness import HarnessJar
from support.stores import TAILRACE_COLD, StoreKind

from .test_hinted_store import Hinting, filled, metrics

HITS = (
    "tailraceHitsUsedBefore",
    "tailraceHitsHinted",
    "tailraceHitsLookAhead",
    "tailraceHitsOnDemand",
    "tailracePrefetchLate",
    "tailracePrefetchMisses",
)


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE_COLD


def gained(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name.removeprefix("tailrace"): after[name] - before[name] for name in HITS}


@pytest.mark.parametrize("prefetch", ["on", "demand"])
def test_a_look_up_is_counted_by_where_its_record_was(
    open_provider: Opener, harness_classes: HarnessJar, prefetch: str
) -> None:
    hints = "on" if prefetch == "on" else "off"
    hinting = Hinting(open_provider, harness_classes, prefetch=prefetch, hints=hints)
    version = filled(hinting, 200)
    hinted = list(range(100)) if hints == "on" else []
    if hinted:
        hinting.hint_and_read(version, hinted)
    store = hinting.provider.load(version)
    before = metrics(store)
    for place, number in enumerate(hinted):
        # Each takes as much: the entry, and its place.
        left = before["tailracePrefetchedBytes"] * (100 - place) // 100
        assert metrics(store)["tailracePrefetchedBytes"] == left
        store.get([number])
    store.multi_get([[number] for number in range(100, 150)])
    for number in range(150, 160):
        store.get([number])  # nobody has told of these
    for number in range(150, 160):
        store.get([number])
    assert store.get([1_000]) is None  # an absent key is no hit
    after = metrics(store)
    found = gained(after, before)
    asked_for = "HitsLookAhead" if prefetch == "on" else "HitsOnDemand"
    read_for_many = found.pop(asked_for) + found.pop("PrefetchLate")
    assert read_for_many == 50
    assert {name: count for name, count in found.items() if count} == {
        "HitsUsedBefore": 10,
        "PrefetchMisses": 10,
        **({"HitsHinted": 100} if hinted else {}),
    }
    assert after["tailraceColdWaitTime"] >= 0
    store.abort()


def test_what_was_read_for_hints_in_vain(hinting_lru: Hinting) -> None:
    version = filled(hinting_lru, 200)
    hinting_lru.hint_and_read(version, list(range(60)))
    store = hinting_lru.provider.load(version)
    for number in range(20):
        store.get([number])
    store.commit()
    found = hinting_lru.metrics(version + 1)
    assert found["tailraceHintsInVain"] == found["tailracePrefetchInVain"] == 40
    assert found["tailraceHitsHinted"] == 20


@pytest.fixture
def hinting_lru(open_provider: Opener, harness_classes: HarnessJar) -> Hinting:
    """A cache that gives up what its batch has not taken."""
    return Hinting(open_provider, harness_classes, cache="lru")


def test_hints_that_were_sent_and_dropped(
    open_provider: Opener, harness_classes: HarnessJar
) -> None:
    hinting = Hinting(open_provider, harness_classes)
    version = filled(hinting, 50)
    hinting.hint(version, [1, 2, 3], dropped=40)
    hinting.hint(version, [4, 5], dropped=2)
    found = hinting.metrics(version)
    assert found["tailraceHintsReceived"] == 5
    assert found["tailraceHintsDropped"] == 42
    assert found["tailraceHintsSent"] == 47


# ---- times

MICROSECOND = 1_000
MILLISECOND = 1_000_000


def test_percentiles_are_right_to_a_fifth(spark: SparkSession) -> None:
    times = spark._jvm.tailrace.metrics.LatencyHistogram()
    for _ in range(980):
        times.add(2 * MICROSECOND)
    for _ in range(18):
        times.add(3 * MILLISECOND)
    for _ in range(2):
        times.add(700 * MILLISECOND)
    for share, exact in (
        (0.5, 2 * MICROSECOND),
        (0.99, 3 * MILLISECOND),
        (0.999, 700 * MILLISECOND),
    ):
        assert exact <= times.percentile(share) <= 1.2 * exact


def test_a_meter_times_one_access_in_64(spark: SparkSession) -> None:
    """By chance, whatever the pattern of the accesses; those of all kinds are in one histogram."""
    meter = spark._jvm.tailrace.metrics.BatchMeter()
    system = spark._jvm.System
    timed: list[int] = []
    for at in range(2_000):
        started: Any = meter.gets().start()
        if started:
            timed.append(at)
            meter.gets().stop(system.nanoTime() - 5 * MILLISECOND)
    assert meter.gets().count() == 2_000
    assert timed[0] == 0
    assert 15 <= len(timed) <= 60
    assert len({at % 64 for at in timed}) > 5
    assert meter.gets().nanos() >= 2_000 * 5 * MILLISECOND
    assert meter.accesses().percentile(0.01) >= 5 * MILLISECOND
    started = meter.puts().start()
    meter.puts().stop(system.nanoTime() - 900 * MILLISECOND)
    assert meter.accesses().percentile(1.0) >= 900 * MILLISECOND


def test_every_store_says_so(open_provider: Opener, harness_classes: HarnessJar) -> None:
    """Sums of percentiles are divided by this."""
    hinting = Hinting(open_provider, harness_classes)
    store = hinting.provider.load(0)
    store.put([1], ["one"])
    found = metrics(store)
    assert found["tailraceStores"] == 1
    assert 0 < found["tailraceAccessP50"] <= found["tailraceAccessP99"]
    assert found["tailraceAccessP99"] <= found["tailraceAccessP999"]
    store.abort()
