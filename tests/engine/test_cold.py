"""The log of spilled state: its size, its files, damage, and memory that is short.

Problem: a log that grows without end, files that stay behind, or a damaged entry that is taken for
state would all pass a comparison of results.
Answer: stores whose state is spilled after every batch, and one with a small budget; their
metrics of the log, and the files in its folder.
Invariant: the log stays within its bound, ends with its store, and an entry that was damaged is an
error with a remedy.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.expectations import commit_all, contents, refuses, state_at
from support.fixtures import Opener, wait_until
from support.harness import HarnessJar, Remote, Shape, Store, StoreError
from support.stores import TAILRACE_COLD, TAILRACE_CONF, StoreKind

SEGMENT = 4096
PAYLOAD = Shape(key="k INT", value="v STRING")
LISTS = Shape(key="k INT", value="v STRING", multiple_values=True)


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE_COLD


@pytest.fixture
def little_memory(spark: SparkSession, open_provider: Opener) -> Iterator[None]:
    """A limit that belongs to the stores of the test alone.

    Spark keeps the stores of queries that have ended for some time, and they count. The store that
    is opened next sets the limit again.
    """
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    budget = jvm.tailrace.spark.EngineRuntime.current().budget()
    wait_until(lambda: budget.used() == 0, "stores of other tests have memory")
    yield
    open_provider(PAYLOAD, partition=99)


def metric(store: Store, name: str) -> int:
    return int(store.metrics()["custom"][name])


def in_folder(folder: Path, tier: str = "local") -> dict[str, Any]:
    if tier == "local":
        return {TAILRACE_CONF + "localDir": str(folder)}
    return {TAILRACE_CONF + "coldDir": folder.as_uri(), TAILRACE_CONF + "retryTimeout": "1s"}


ON_EACH_TIER = pytest.mark.parametrize("tier", ["local", "remote"])


def cold_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.cold"))


def text(number: int, length: int = 200) -> str:
    return f"{number}".ljust(length, "x")


@ON_EACH_TIER
def test_the_log_stays_within_its_bound(open_provider: Opener, tmp_path: Path, tier: str) -> None:
    """Random keys are replaced, over and over: dead entries are soon many times the living."""
    chance = random.Random(20261116)
    provider = open_provider(PAYLOAD, confs=in_folder(tmp_path / "local", tier))
    expected: dict[tuple[int], tuple[str]] = {}
    for version in range(40):
        store = provider.load(version)
        for _ in range(60):
            key = (chance.randrange(300),)
            expected[key] = (text(chance.randrange(10**6)),)
            store.put(key, expected[key])
        live, total = metric(store, "tailraceColdBytes"), metric(store, "tailraceColdLogBytes")
        # Records that were asked for again are back in memory: their entries are given up.
        assert total <= 1.5 * (live + 60 * 300) + 6 * SEGMENT
        store.commit()
    assert state_at(provider, 40) == expected
    store = provider.load(40)
    assert metric(store, "tailraceColdWrittenBytes") > 4 * metric(store, "tailraceColdLogBytes")
    store.abort()

    def files_are_the_log() -> bool:  # as soon as no snapshot is being written
        store = provider.load(40)
        total = metric(store, "tailraceColdLogBytes")
        store.abort()
        return sum(file.stat().st_size for file in cold_files(tmp_path / "local")) <= total

    wait_until(files_are_the_log)


@ON_EACH_TIER
def test_the_log_ends_with_its_store(open_provider: Opener, tmp_path: Path, tier: str) -> None:
    provider = open_provider(PAYLOAD, confs=in_folder(tmp_path / "local", tier))
    store = provider.load(0)
    store.put_all(([number], [text(number)]) for number in range(100))
    store.commit()
    provider.load(1).abort()
    assert cold_files(tmp_path / "local")
    provider.close()
    assert not cold_files(tmp_path / "local")
    (home,) = (tmp_path / "local").iterdir()  # of the process, with its lock or its time
    names = sorted(path.name for path in home.iterdir())
    assert names == (["lock"] if tier == "local" else [".alive.crc", "alive"])


def test_what_a_killed_process_left_is_swept(open_provider: Opener, tmp_path: Path) -> None:
    """No process holds its lock. A folder without a lock is being made by a process, and stays."""
    left = tmp_path / "local" / "tailrace-cold-1" / "store-2"
    left.mkdir(parents=True)
    (left / "0.cold").write_bytes(b"state")
    (left.parent / "lock").touch()
    made = tmp_path / "local" / "tailrace-cold-3"
    made.mkdir()
    other = tmp_path / "local" / "of-another-program"
    other.mkdir()
    provider = open_provider(PAYLOAD, confs=in_folder(tmp_path / "local"))
    store = provider.load(0)
    store.put([1], [text(1)])
    store.commit()
    provider.load(1).abort()
    assert not left.parent.exists()
    assert made.exists()
    assert other.exists()
    assert len(cold_files(tmp_path / "local")) == 1


def test_lists_are_given_up_with_their_keys(open_provider: Opener, tmp_path: Path) -> None:
    provider = open_provider(LISTS, column_families=True, confs=in_folder(tmp_path / "local"))
    for version in range(3):
        store = provider.load(version)
        for key in range(50):
            store.merge([key], [text(version)])
        store.commit()
    store = provider.load(3)
    assert metric(store, "tailraceColdBytes") > 50 * 3 * 200
    assert store.values([7]) == [(text(number),) for number in range(3)]
    for key in range(50):
        store.remove([key])
    store.commit()

    def all_is_given_up() -> bool:  # as soon as no snapshot is being written
        store = provider.load(4)
        left = metric(store, "tailraceColdBytes")
        store.abort()
        return left == 0

    wait_until(all_is_given_up)


@pytest.mark.parametrize("shape", [PAYLOAD, LISTS], ids=["record", "list"])
def test_a_damaged_entry_is_an_error(open_provider: Opener, tmp_path: Path, shape: Shape) -> None:
    lists = shape is LISTS
    provider = open_provider(shape, column_families=lists, confs=in_folder(tmp_path / "local"))
    store = provider.load(0)
    if lists:
        store.merge([1], [text(1)])
    else:
        store.put([1], [text(1)])
    store.commit()
    store = provider.load(1)
    (file,) = cold_files(tmp_path / "local")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    error = refuses(store.values if lists else store.get, [1])
    assert error.class_name.endswith("ColdFileDamaged")
    assert "Restart the query" in str(error)
    store.abort()
    # The checkpoint is whole: the half-done batch is forgotten, and the state loaded again.
    again = provider.load(1)
    assert metric(again, "tailraceLoadedFiles") == 1
    assert (again.values([1]) if lists else [again.get([1])]) == [(text(1),)]
    again.abort()


def test_a_disk_that_fails_loses_nothing(open_provider: Opener, tmp_path: Path) -> None:
    """A file is in the way of the log's folder: records cannot be spilled."""
    provider = open_provider(PAYLOAD, confs=in_folder(tmp_path / "local"))
    rows = {(number,): (text(number),) for number in range(100)}
    assert commit_all(provider, 0, list(rows.items())) == 1
    assert commit_all(provider, 1, list(rows.items())) == 2
    (folder,) = {file.parent for file in cold_files(tmp_path / "local")}
    shutil.rmtree(folder)
    folder.write_text("in the way")
    store = provider.load(2)
    error = refuses(store.put_all, [([number], [text(0)]) for number in range(50)])
    assert error.class_name.endswith("SpillFailed")
    assert "local_dir" in str(error)
    assert "nothing is lost" in str(error)
    store.abort()
    folder.unlink()
    again = provider.load(2)
    assert metric(again, "tailraceLoadedFiles") > 0
    assert contents(again) == rows
    again.abort()


@pytest.mark.usefixtures("little_memory")
@ON_EACH_TIER
def test_a_state_that_is_larger_than_its_memory(
    open_provider: Opener, tmp_path: Path, tier: str
) -> None:
    """Twelve megabytes of state in eight: while it grows, when it is loaded, when it is read."""
    small = {
        **in_folder(tmp_path / "local", tier),
        TAILRACE_CONF + "spill": "on",
        TAILRACE_CONF + "memoryLimit": "8m",
    }
    provider = open_provider(PAYLOAD, confs=small)
    for version in range(24):
        store = provider.load(version)
        store.put_all(
            ([number], [text(number, 1000)]) for number in range(version * 500, version * 500 + 500)
        )
        store.commit()
    store = provider.load(24)
    assert metric(store, "tailraceColdBytes") > 4 << 20
    assert metric(store, "tailraceReservedBytes") <= 8 << 20
    for number in random.Random(1).sample(range(12_000), 300):
        assert store.get([number]) == (text(number, 1000),)
    store.abort()
    provider.close()
    again = open_provider(PAYLOAD, confs=small)
    store = again.load(24)
    assert metric(store, "tailraceReservedBytes") <= 8 << 20
    assert len(contents(store)) == 12_000
    store.abort()


@pytest.mark.usefixtures("little_memory")
def test_a_store_that_stands_still_gives_memory_back(open_provider: Opener, tmp_path: Path) -> None:
    """Two stores of eight megabytes: the first has taken six, and has no batch to run."""
    small = {
        **in_folder(tmp_path / "local"),
        TAILRACE_CONF + "spill": "on",
        TAILRACE_CONF + "memoryLimit": "8m",
    }
    still = open_provider(PAYLOAD, confs=small, partition=0)
    for version in range(8):
        rows = range(version * 1_000, version * 1_000 + 1_000)
        commit_all(still, version, [([number], [text(number, 1000)]) for number in rows])
    busy = open_provider(PAYLOAD, confs=small, partition=1)
    rows = [([number], [text(number, 1000)]) for number in range(2_000)]
    assert commit_all(busy, 0, rows) == 1
    assert commit_all(busy, 1, rows) == 2
    store = still.load(8)
    assert len(contents(store)) == 8_000
    store.abort()
    # The batch that it could still have undone is loaded, if it is asked for.
    assert len(state_at(still, 7)) == 7_000
    assert state_at(busy, 2) == {(number,): (text(number, 1000),) for number in range(2_000)}


@pytest.mark.usefixtures("little_memory")
def test_without_spilling_it_is_an_error(open_provider: Opener) -> None:
    confs = {TAILRACE_CONF + "spill": "off", TAILRACE_CONF + "memoryLimit": "4m"}
    provider = open_provider(PAYLOAD, confs=confs)
    assert commit_all(provider, 0, [([1], [text(1)])]) == 1
    store = provider.load(1)
    too_much = [([number], [text(number, 1000)]) for number in range(6_000)]
    error = refuses(store.put_all, too_much)
    assert error.class_name.endswith("MemoryExhausted")
    store.abort()
    # Whatever the batch had done by half is gone.
    assert state_at(provider, 1) == {(1,): (text(1),)}


def test_a_log_without_numbers_left_is_an_error(harness_classes: HarnessJar) -> None:
    table = Remote(harness_classes, "DueHarness")
    table.call("new", in_key=False, window=False, cold=True)
    table.call("use_up_the_log")
    table.call("put", id=1, time=1, filler=200)
    table.call("apply")
    with pytest.raises(StoreError, match="Remedy: Restart the query") as caught:
        table.call("begin")
    assert caught.value.class_name == "tailrace.errors.ColdLogUsedUp"
    table.call("close")
