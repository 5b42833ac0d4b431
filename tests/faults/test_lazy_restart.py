"""A restart that leaves its state in the snapshot: right rows, or a plain error.

Problem: what is read when it is asked for is found to be damaged, cut or gone when the query has
been running for a while.
Answer: the rest is then loaded from other files of the same version, as a restart that reads all
would do; if there are none, the task fails with the error of that load.
Invariant: no test sees a row that is not there, or misses one that is, in silence.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support import statefile
from support.damage import ERRORS, SHAPE, assert_clear, folder_of
from support.expectations import contents
from support.fixtures import Opener, wait_until
from support.harness import Provider, Store, StoreError
from support.seeds import SEED

from tailrace.options import CONF_PREFIX

KEYS = 600
PLAIN = {CONF_PREFIX + "compression": "none"}
LAZY = {**PLAIN, CONF_PREFIX + "restart": "always"}
SNAPSHOT = "2.snapshot.tr"
# Version 2 has the snapshot; version 3 replaces, adds and removes some.
STATE = {
    **{(key,): (key * 7,) for key in range(KEYS)},
    **{(key,): (-key,) for key in range(0, KEYS, 5)},
    **{(key,): (key,) for key in range(KEYS, KEYS + 20)},
}
GONE = range(1, KEYS, 50)
for gone in GONE:
    del STATE[(gone,)]


@pytest.fixture
def written(open_provider: Opener) -> Path:
    provider = open_provider(SHAPE, confs=LAZY)
    store = provider.load(0)
    store.put_all([([key], [0]) for key in range(KEYS)])
    store.commit()
    store = provider.load(1, force_snapshot=True)
    store.put_all([([key], [key * 7]) for key in range(KEYS)])
    store.commit()
    folder = folder_of(open_provider)
    open_provider.wait_for_snapshot(folder / SNAPSHOT)
    store = provider.load(2)
    store.put_all([([key], [-key]) for key in range(0, KEYS, 5)])
    store.put_all([([key], [key]) for key in range(KEYS, KEYS + 20)])
    for key in GONE:
        store.remove([key])
    store.commit()
    provider.close()
    return folder


def only_the_snapshot(folder: Path) -> None:
    """Nothing else leads to version 2."""
    (folder / "1.changes.tr").unlink()
    (folder / "2.changes.tr").unlink()


def custom(store: Store) -> dict[str, int]:
    return store.metrics()["custom"]


def looked_up(store: Store, keys: Any = range(-10, KEYS + 30)) -> dict[Any, Any]:
    found = {(key,): store.get([key]) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


def opened(opener: Opener, **named: Any) -> tuple[Provider, Store]:
    provider = opener(SHAPE, confs=LAZY)
    return provider, provider.load(3, **named)


def blocks_of(path: Path) -> list[statefile.Place]:
    return [
        place for section in statefile.read_index(path.read_bytes()) for place in section.places
    ]


def spoil(path: Path, *blocks: int) -> None:
    data = bytearray(path.read_bytes())
    places = blocks_of(path)
    for block in blocks:
        data[places[block].offset + places[block].length - 1] ^= 4
    path.write_bytes(bytes(data))


def test_records_are_read_when_they_are_asked_for(open_provider: Opener, written: Path) -> None:
    assert len(blocks_of(written / SNAPSHOT)) > 100
    _, store = opened(open_provider)
    at_first = custom(store)
    assert store.metrics()["num_keys"] == len(STATE)
    assert at_first["tailracePendingRows"] > KEYS * 0.7
    assert at_first["tailraceLateBlocks"] == 0
    assert store.get([7]) == (49,)
    assert store.get([GONE[1]]) is None
    assert store.get([5]) == (-5,)
    later = custom(store)
    assert 1 <= later["tailraceLateBlocks"] <= 3
    assert 0 < at_first["tailracePendingRows"] - later["tailracePendingRows"] < 60
    assert looked_up(store) == STATE
    assert custom(store)["tailracePendingRows"] == 0
    assert store.metrics()["num_keys"] == len(STATE)
    store.abort()


def test_an_operation_on_all_state_reads_the_rest(open_provider: Opener, written: Path) -> None:
    _, store = opened(open_provider)
    assert contents(store) == STATE
    assert custom(store)["tailracePendingRows"] == 0
    store.abort()


def test_the_rest_comes_behind(open_provider: Opener, written: Path) -> None:
    """Once the task is through, without another one."""
    provider, store = opened(open_provider)
    store.put([3], [33])
    store.commit()
    store = provider.load(4)
    store.abort()

    def is_whole() -> bool:
        read = provider.load_read(4)
        try:
            return custom(read)["tailracePendingRows"] == 0
        finally:
            read.release()

    wait_until(is_whole)
    store = provider.load(4)
    before = custom(store)["tailraceLateBlocks"]
    assert contents(store) == {**STATE, (3,): (33,)}
    assert custom(store)["tailraceLateBlocks"] == before
    store.abort()


def test_a_snapshot_that_is_due_waits_for_the_rest(open_provider: Opener, written: Path) -> None:
    provider, store = opened(open_provider, force_snapshot=True)
    store.put([3], [33])
    store.commit()
    for version in range(4, 40):
        store = provider.load(version, force_snapshot=True)
        store.put([3], [version])
        store.commit()
        if list(written.glob("[0-9]*.snapshot.tr")) != [written / SNAPSHOT]:
            break
    else:
        pytest.fail("no snapshot was written")
    provider.close()
    store = open_provider(SHAPE, confs=LAZY).load(version + 1)
    assert contents(store) == {**STATE, (3,): (version,)}
    store.abort()


def test_a_batch_that_is_taken_back_and_one_that_is_done_again(
    open_provider: Opener, written: Path
) -> None:
    provider, store = opened(open_provider)
    store.put([3], [1])
    store.remove([4])
    store.abort()
    store = provider.load(3)
    assert looked_up(store, range(10)) == {
        (key,): STATE[(key,)] for key in range(10) if (key,) in STATE
    }
    store.put([3], [2])
    store.remove([8])
    store.commit()
    store = provider.load(3)  # the same batch again
    store.put([3], [3])
    store.commit()
    store = provider.load(4)
    assert contents(store) == {**STATE, (3,): (3,)}
    store.abort()


def test_a_damaged_block_is_replaced_from_other_files(open_provider: Opener, written: Path) -> None:
    spoil(written / SNAPSHOT, *range(0, 100, 2))
    _, store = opened(open_provider)
    assert looked_up(store) == STATE
    assert store.metrics()["num_keys"] == len(STATE)
    store.abort()


def test_a_block_that_is_damaged_later_is_replaced_from_other_files(
    open_provider: Opener, written: Path
) -> None:
    provider, store = opened(open_provider)
    store.put([7], [70])
    store.remove([8])
    spoil(written / SNAPSHOT, *range(len(blocks_of(written / SNAPSHOT))))
    expected = {**STATE, (7,): (70,)}
    del expected[(8,)]
    assert contents(store) == expected
    store.commit()
    store = provider.load(4)
    assert contents(store) == expected
    store.abort()


def test_a_damaged_block_that_nothing_can_replace(open_provider: Opener, written: Path) -> None:
    only_the_snapshot(written)
    spoil(written / SNAPSHOT, *range(len(blocks_of(written / SNAPSHOT))))
    provider, store = opened(open_provider)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            store.get([7])
        assert_clear(caught.value, "CorruptFile", SNAPSHOT)
    store.abort()
    # The work behind may have met the block meanwhile: then the next batch does not begin.
    with pytest.raises(StoreError) as caught:
        provider.load(3).iterate()
    assert_clear(caught.value, "CorruptFile", SNAPSHOT)


def test_a_snapshot_that_vanishes_is_replaced_from_other_files(
    open_provider: Opener, written: Path
) -> None:
    """It was never opened by a look-up: on a local disk an open file does not vanish."""
    spoil(written / SNAPSHOT)
    _, store = opened(open_provider)
    data = (written / SNAPSHOT).read_bytes()
    (written / SNAPSHOT).unlink()
    (written / SNAPSHOT).write_bytes(data[: len(data) // 3])
    assert contents(store) == STATE
    store.abort()


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_snapshot_that_was_copied_in_part(
    open_provider: Opener, written: Path, kept: float
) -> None:
    path = written / SNAPSHOT
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    _, store = opened(open_provider)
    assert looked_up(store) == STATE
    store.abort()
    only_the_snapshot(written)
    with pytest.raises(StoreError) as caught:
        opened(open_provider)
    assert_clear(caught.value, "CorruptFile", SNAPSHOT)


def test_no_flipped_bit_changes_a_row(open_provider: Opener, written: Path) -> None:
    """One bit anywhere: other files replace what it spoils, or there is an error."""
    print(f"seed {SEED}: TAILRACE_SEED={SEED} replays this")
    chooser = random.Random(SEED)
    path = written / SNAPSHOT
    intact = path.read_bytes()
    flips = chooser.sample(range(len(intact) * 8), 60)
    for alone in (False, True):
        if alone:
            only_the_snapshot(written)
        for flip in flips:
            data = bytearray(intact)
            data[flip // 8] ^= 1 << flip % 8
            path.write_bytes(bytes(data))
            try:
                provider, store = opened(open_provider)
                assert looked_up(store) == STATE, f"bit {flip}"
                store.abort()
                provider.close()
            except StoreError as error:
                assert alone, f"bit {flip}: {error}"
                assert error.class_name.startswith(ERRORS), f"bit {flip}: {error}"
                assert SNAPSHOT in str(error)


def test_a_block_of_another_file_is_no_block_of_this_one(
    open_provider: Opener, written: Path
) -> None:
    """Each block is whole in itself; only the index tells that two have changed places."""
    path = written / SNAPSHOT
    data = bytearray(path.read_bytes())
    places = [place for place in blocks_of(path) if place.length == blocks_of(path)[0].length]
    first, second = places[0], places[-1]
    for target, source in ((first, second), (second, first)):
        data[target.offset : target.offset + target.length] = path.read_bytes()[
            source.offset : source.offset + source.length
        ]
    path.write_bytes(bytes(data))
    only_the_snapshot(written)
    _, store = opened(open_provider)
    with pytest.raises(StoreError) as caught:
        looked_up(store)
    assert_clear(caught.value, "CorruptFile", SNAPSHOT)
    store.abort()


def test_records_that_were_spilled_are_in_the_order_of_hashes_too(open_provider: Opener) -> None:
    """They are sorted in pieces of a few kilobytes here, and the pieces are merged."""
    confs = {**LAZY, CONF_PREFIX + "spill": "always", CONF_PREFIX + "maxDeltas": "4"}
    provider = open_provider(SHAPE, confs=confs)
    for version in range(6):
        store = provider.load(version)
        few = range(version * 5, version * 5 + 5)
        store.put_all([([key], [version]) for key in (few if version else range(KEYS))])
        store.commit()
    path = folder_of(open_provider) / "4.snapshot.tr"
    open_provider.wait_for_snapshot(path)
    provider.close()
    snapshot = statefile.read(path)
    assert [section.by_hash for section in snapshot.sections] == [True, True]
    assert sum(place.entries for place in snapshot.sections[1].places) > KEYS * 0.8
    expected = {(key,): (key // 5 if key < 30 else 0,) for key in range(KEYS)}
    store = open_provider(SHAPE, confs=confs).load(6)
    assert looked_up(store) == expected
    store.abort()


def test_snapshots_without_an_index_are_read_whole(open_provider: Opener) -> None:
    """Those that were written before there was one (format 1)."""
    folder = folder_of(open_provider)
    folder.mkdir(parents=True)
    provider = open_provider(SHAPE, confs=LAZY)
    store = provider.load(0, force_snapshot=True)
    store.put_all([([key], [key]) for key in range(KEYS)])
    store.commit()
    path = folder / "1.snapshot.tr"
    open_provider.wait_for_snapshot(path)
    provider.close()
    path.write_bytes(statefile.without_index(path.read_bytes()))
    (folder / "1.changes.tr").unlink()
    for restart in ("always", "eager"):
        provider = open_provider(SHAPE, confs={**LAZY, CONF_PREFIX + "restart": restart})
        store = provider.load(1)
        assert custom(store)["tailracePendingRows"] == 0
        assert contents(store) == {(key,): (key,) for key in range(KEYS)}
        store.abort()
        provider.close()
