"""Checkpoint format 2: each commit has an id of its own, and a load names the one it wants.

Two attempts at a batch, perhaps on two machines, both commit version N+1. The driver picks one id;
the store loads exactly that attempt, now and after any restart.
"""

from __future__ import annotations

from typing import Any

from support.expectations import Capability, contents, needs, refuses
from support.fixtures import Opener
from support.harness import Provider

pytestmark = needs(Capability.CHECKPOINT_IDS)

FORMAT_TWO = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}


def commit(
    provider: Provider, version: int, checkpoint_id: str | None, entries: list[Any]
) -> dict[str, Any]:
    store = provider.load(version, checkpoint_id)
    store.put_all(entries)
    assert store.commit() == version + 1
    info = store.checkpoint_info()
    assert info["version"] == version + 1
    assert info["base_checkpoint_id"] == checkpoint_id
    assert info["checkpoint_id"]
    return info


def state(provider: Provider, version: int, checkpoint_id: str | None) -> dict[Any, Any]:
    store = provider.load_read(version, checkpoint_id)
    found = contents(store)
    store.release()
    return found


def test_each_commit_has_its_own_id(open_provider: Opener) -> None:
    provider = open_provider(confs=FORMAT_TWO)
    first = commit(provider, 0, None, [(["a"], [1])])
    second = commit(provider, 1, first["checkpoint_id"], [(["b"], [2])])
    assert first["checkpoint_id"] != second["checkpoint_id"]
    assert first["partition"] == second["partition"] == 0
    assert state(provider, 1, first["checkpoint_id"]) == {("a",): (1,)}
    assert state(provider, 2, second["checkpoint_id"]) == {("a",): (1,), ("b",): (2,)}


def test_two_attempts_at_a_version_stay_apart(open_provider: Opener) -> None:
    provider = open_provider(confs=FORMAT_TWO)
    base = commit(provider, 0, None, [(["a"], [0])])["checkpoint_id"]
    left = commit(provider, 1, base, [(["left"], [1])])["checkpoint_id"]
    right = commit(provider, 1, base, [(["right"], [1])])["checkpoint_id"]
    assert left != right
    provider.close()
    fresh = open_provider(confs=FORMAT_TWO)
    assert state(fresh, 2, left) == {("a",): (0,), ("left",): (1,)}
    assert state(fresh, 2, right) == {("a",): (0,), ("right",): (1,)}
    # Either may be the one that the query goes on from.
    after = commit(fresh, 2, left, [(["after"], [2])])["checkpoint_id"]
    fresh.close()
    last = open_provider(confs=FORMAT_TWO)
    assert state(last, 3, after) == {("a",): (0,), ("left",): (1,), ("after",): (2,)}


def test_two_providers_attempt_the_same_version(open_provider: Opener) -> None:
    left, right = open_provider(confs=FORMAT_TWO), open_provider(confs=FORMAT_TWO)
    base = commit(left, 0, None, [(["a"], [0])])["checkpoint_id"]
    left_id = commit(left, 1, base, [(["left"], [1])])["checkpoint_id"]
    right_id = commit(right, 1, base, [(["right"], [1])])["checkpoint_id"]
    assert state(left, 2, right_id) == {("a",): (0,), ("right",): (1,)}
    assert state(right, 2, left_id) == {("a",): (0,), ("left",): (1,)}


def test_an_unknown_id_is_refused(open_provider: Opener) -> None:
    provider = open_provider(confs=FORMAT_TWO)
    base = commit(provider, 0, None, [(["a"], [0])])["checkpoint_id"]
    refuses(provider.load, 1, "00000000-0000-0000-0000-000000000000")
    assert state(provider, 1, base) == {("a",): (0,)}


def test_the_lineage_is_followed_through_many_versions(open_provider: Opener) -> None:
    provider = open_provider(confs=FORMAT_TWO)
    ids: list[str | None] = [None]
    expected: dict[Any, Any] = {}
    states: list[dict[Any, Any]] = [{}]
    for version in range(12):
        # An attempt that the driver never chose lies beside the chosen one.
        commit(provider, version, ids[-1], [(["rejected"], [version]), ([f"k{version}"], [-1])])
        info = commit(provider, version, ids[-1], [([f"k{version}"], [version])])
        ids.append(info["checkpoint_id"])
        expected[(f"k{version}",)] = (version,)
        states.append(dict(expected))
        if version % 4 == 3:
            provider.maintain()
    provider.close()
    fresh = open_provider(confs=FORMAT_TWO)
    for version in (12, 5, 9, 1):
        assert state(fresh, version, ids[version]) == states[version]


def test_upgrade_with_an_id(open_provider: Opener) -> None:
    provider = open_provider(confs=FORMAT_TWO)
    base = commit(provider, 0, None, [(["a"], [0])])["checkpoint_id"]
    reader = provider.load_read(1, base)
    writer = provider.upgrade(reader, 1, base)
    writer.put(["b"], [1])
    assert writer.commit() == 2
    info = writer.checkpoint_info()
    assert info["base_checkpoint_id"] == base
    assert state(provider, 2, info["checkpoint_id"]) == {("a",): (0,), ("b",): (1,)}


def test_the_id_is_not_there_before_the_commit(open_provider: Opener) -> None:
    store = open_provider(confs=FORMAT_TWO).load(0)
    refuses(store.checkpoint_info)


def test_rejected_attempts_do_not_survive_their_cleanup(open_provider: Opener) -> None:
    confs = {
        **FORMAT_TWO,
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.tailrace.maxDeltas": "2",
    }
    provider = open_provider(confs=confs)
    ids: list[str | None] = [None]
    expected: dict[Any, Any] = {}
    for version in range(14):
        commit(provider, version, ids[-1], [(["rejected"], [version]), ([f"k{version}"], [-1])])
        provider.maintain()
        info = commit(provider, version, ids[-1], [([f"k{version}"], [version])])
        provider.maintain()
        ids.append(info["checkpoint_id"])
        expected[(f"k{version}",)] = (version,)
    provider.close()
    fresh = open_provider(confs=confs)
    assert state(fresh, 14, ids[14]) == expected
    del expected[("k13",)]
    assert state(fresh, 13, ids[13]) == expected
    refuses(fresh.load, 1, ids[1])
