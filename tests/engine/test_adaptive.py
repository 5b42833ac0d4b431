"""Families of which nobody says how they are used: they start sorted, and move if nobody scans.

Problem: two layouts hold the same records for a while; a change that reaches only one of them shows
when the other answers, after the move, or when a scan takes it back.
Answer: random batches by key, some taken back, with scans at any moment, against a dict.
Invariant: whatever the layout, the same answers; and the metric tells that the move did happen.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.fixtures import Opener
from support.harness import Encoder, Provider, Shape, Store
from support.seeds import SEED
from support.stores import TAILRACE_COLD, StoreKind

GROUPED = Shape(key="g STRING, n INT", value="v LONG", encoder=Encoder.prefix(1))
Contents = dict[tuple[str, int], tuple[int]]


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE_COLD  # in which the layout is hasty: ten accesses, five entries a step


def moved(store: Store) -> int:
    return int(store.metrics()["custom"]["tailraceFamiliesMoved"])


def change(store: Store, live: Contents, chance: random.Random) -> None:
    for _ in range(chance.randrange(25)):
        key = (chance.choice("abc"), chance.randrange(12))
        assert store.get(key) == live.get(key)
        if chance.random() < 0.3:
            store.remove(key)
            live.pop(key, None)
        else:
            live[key] = (chance.randrange(1000),)
            store.put(key, live[key])


def check(store: Store, live: Contents, scans: bool) -> None:
    assert dict(store.iterate()) == live
    if scans:
        for prefix in "abc":
            found = store.prefix_scan([prefix])
            assert dict(found) == {key: live[key] for key in live if key[0] == prefix}


@pytest.mark.parametrize("history", range(8))
def test_histories(open_provider: Opener, history: int) -> None:
    chance = random.Random(f"{SEED}/{history}")
    provider = open_provider(GROUPED)
    live: Contents = {}
    version, most_moved = 0, 0
    for batch in range(60):
        store = provider.load(version)
        changed = dict(live)
        change(store, changed, chance)
        check(store, changed, scans=batch > 20 and chance.random() < 0.1)
        most_moved = max(most_moved, moved(store))
        if chance.random() < 0.2:
            store.abort()
            continue
        store.commit()
        if chance.random() < 0.2:
            continue  # the version is made once more
        live, version = changed, version + 1
    assert most_moved == 1


def fill(provider: Provider) -> Contents:
    """Forty entries; then batches by key until the move is on its way, and not through."""
    live = {(chr(97 + n % 3), n): (n,) for n in range(40)}
    store = provider.load(0)
    store.put_all(live.items())
    store.commit()
    for version in range(1, 4):
        store = provider.load(version)
        for key in list(live)[:12]:
            assert store.get(key) == live[key]
        assert moved(store) == 0
        store.commit()
    return live


def test_a_scan_in_the_middle_of_the_move(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    check(provider.load(4), live, scans=True)


def test_a_process_that_ends_in_the_middle_of_the_move(
    open_provider: Opener, tmp_path: Path
) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    provider.close()
    again = open_provider(GROUPED)
    check(again.load(4), live, scans=True)


def test_the_move_and_the_way_back(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    for version in range(4, 14):
        store = provider.load(version)
        assert store.get(("a", 0)) == (0,)
        store.commit()
    store = provider.load(14)
    assert moved(store) == 1
    check(store, live, scans=True)
    assert moved(store) == 0
