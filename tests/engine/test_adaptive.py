"""Families of which the plan does not say how they are used: sorted first, moved if not scanned.

Problem: two layouts hold the same records for a while; a change that reaches only one of them shows
when the other answers, after the move, or when a scan takes it back.
Answer: random batches by key, some rolled back, with scans at any moment, against a dict.
Invariant: both layouts give the same answers, and the metric shows that the move did happen.
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


def moving(store: Store) -> int:
    return int(store.metrics()["custom"]["tailraceFamiliesMoving"])


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
    # So many that the move takes several steps.
    live: Contents = {(group, number): (0,) for group in "abc" for number in range(12)}
    store = provider.load(0)
    store.put_all(live.items())
    store.commit()
    version, most_moved, most_moving = 1, 0, 0
    for batch in range(60):
        store = provider.load(version)
        changed = dict(live)
        change(store, changed, chance)
        check(store, changed, scans=batch > 20 and chance.random() < 0.1)
        most_moved = max(most_moved, moved(store))
        most_moving = max(most_moving, moving(store))
        if chance.random() < 0.2:
            store.abort()
            continue
        store.commit()
        if chance.random() < 0.2:
            continue  # the version is made again
        live, version = changed, version + 1
    assert (most_moving, most_moved) == (1, 1)


def fill(provider: Provider) -> Contents:
    """Forty entries; then batches by key until the move is on its way, and not through."""
    live = {(chr(97 + n % 3), n): (n,) for n in range(40)}
    store = provider.load(0)
    store.put_all(live.items())
    store.commit()
    for version in range(1, 4):
        store = provider.load(version)
        assert (moving(store), moved(store)) == (int(version > 1), 0)
        for key in list(live)[:12]:
            assert store.get(key) == live[key]
        store.commit()
    return live


def change_under_way(store: Store, live: Contents) -> None:
    """Keys that have moved and keys that have not: some go, some change, some come."""
    for place, key in enumerate(sorted(live)):
        if place % 3 == 0:
            store.remove(key)
            del live[key]
        elif place % 3 == 1:
            live[key] = (-1,)
            store.put(key, live[key])
    for new in ((group, number) for group in "abc" for number in range(100, 104)):
        live[new] = (-2,)
        store.put(new, live[new])


def test_a_scan_in_the_middle_of_the_move(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    store = provider.load(4)
    assert moving(store) == 1
    change_under_way(store, live)
    check(store, live, scans=True)
    assert (moving(store), moved(store)) == (0, 0)


def test_a_process_that_ends_in_the_middle_of_the_move(
    open_provider: Opener, tmp_path: Path
) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    store = provider.load(4)
    assert moving(store) == 1
    change_under_way(store, live)
    store.commit()
    provider.close()
    store = open_provider(GROUPED).load(5)
    assert moved(store) == 0
    check(store, live, scans=True)


def test_the_move_and_the_way_back(open_provider: Opener) -> None:
    provider = open_provider(GROUPED)
    live = fill(provider)
    store = provider.load(4)
    assert moving(store) == 1
    change_under_way(store, live)
    store.commit()
    for version in range(5, 14):
        store = provider.load(version)
        assert store.get(("a", 100)) == live[("a", 100)]
        store.commit()
    store = provider.load(14)
    assert (moving(store), moved(store)) == (0, 1)
    for key, value in live.items():  # the hash table has the changes made while it was filled
        assert store.get(key) == value
    assert store.get(("a", 0)) is None
    check(store, live, scans=True)
    assert (moving(store), moved(store)) == (0, 0)
