"""Spilled state on a file system far away: when it is written, how it is read, who deletes it.

Problem: such a file system shows no file before it is closed, fails for a while, has no locks, and
each question to it takes time; none of it shows in the results of a query that goes well.
Answer: a table, and stores, whose spilled state is on a scripted file system (support/faults.py)
or on a plain one; its record of all that was asked, and the files in its folders.
Invariant: a failure for a while is tried again, one for good is an error with a remedy, and only
folders of processes that are gone are deleted, with nothing in them that is not ours.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.expectations import commit_all, contents, refuses
from support.faults import CONFS, FileFaults
from support.fixtures import Opener, wait_until
from support.harness import HarnessJar, Shape, StoreError
from support.processes import Program
from support.spill_table import SpillTable
from support.stores import TAILRACE_COLD, TAILRACE_CONF, StoreKind

MB = 1 << 20
SEGMENT = r"/\d+\.cold$"
HOUR = 3600.0
SHAPE = Shape(key="k INT", value="v STRING")


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE_COLD


@pytest.fixture
def table(harness_classes: HarnessJar, tmp_path: Path, faults: FileFaults) -> Iterator[SpillTable]:
    table = SpillTable(harness_classes, tmp_path / "cold", "remote")
    yield table
    faults.clear()
    if table.is_open:
        table.call("close")


def filled(table: SpillTable, limit: int = 4 * MB, batches: int = 20) -> None:
    table.start(limit=limit, scheme="scripted")
    for batch in range(batches):
        table.put(2_000 * batch, 2_000 * (batch + 1), size=200)
        table.next_batch()


def one_in_a_file(table: SpillTable, faults: FileFaults) -> int:
    """A record that was spilled to a segment that is finished."""
    assert any("close " in line and line.endswith(".cold") for line in faults.record)
    return min(table.spilled())


def asked(faults: FileFaults, operation: str) -> Counter[str]:
    lines = [line.partition(" ") for line in faults.record if line.endswith(".cold")]
    return Counter(path for what, _, path in lines if what == operation)


# ---- writing


def test_a_segment_is_written_when_it_is_finished(table: SpillTable, faults: FileFaults) -> None:
    """Until then it is in memory, and is read there."""
    table.start(limit=64 * MB, scheme="scripted", mode="always")
    table.put(0, 10)
    for _ in range(3):
        table.next_batch()
    assert len(table.spilled()) == 10
    assert table.files() == []
    assert table.log()["held"] > 0
    assert table.get(0, 10) == 10
    table.call("close")
    table.is_open = False
    assert table.log()["held"] == 0
    assert not asked(faults, "create")
    assert not asked(faults, "delete")


def test_a_finished_segment_is_written_once(table: SpillTable, faults: FileFaults) -> None:
    filled(table)
    created = asked(faults, "create")
    assert len(created) > 4
    assert set(created.values()) == {1}
    assert table.log()["held"] < 2 * MB


def test_files_that_are_being_written_take_little_memory(table: SpillTable) -> None:
    """The limit of 16 MB gives them 1 MB, though the log is large enough for larger segments."""
    table.start(limit=16 * MB, scheme="scripted")
    largest = 0
    for batch in range(16):
        table.put(batch * 10_000, (batch + 1) * 10_000, size=400)
        table.next_batch()
        largest = max(largest, table.log()["held"])
    assert table.log()["total"] > 40 * MB
    assert 0 < largest <= 2.5 * MB
    assert table.get(0, 10_000, size=400) == 10_000


def test_a_write_that_fails_is_repeated(table: SpillTable, faults: FileFaults) -> None:
    faults.fail("create", SEGMENT, times=2)
    faults.cut(SEGMENT, 1_000, times=1)
    faults.fail("close", SEGMENT, times=1)
    faults.fill(SEGMENT, 3, times=1)
    filled(table)
    failed = [line for line in faults.record if line.startswith("failed ")]
    assert len(failed) == 4  # the one that is cut says nothing
    assert table.log()["sound"]
    for batch in range(20):
        first = 2_000 * batch
        assert table.get(first, first + 2_000, size=200) == 2_000
        table.next_batch()


def test_a_write_that_keeps_failing(table: SpillTable, faults: FileFaults) -> None:
    faults.fail("create", SEGMENT)
    with pytest.raises(StoreError) as raised:
        filled(table)
    assert raised.value.class_name.endswith("SpillFailed")
    for part in (f"scripted:{table.folder}", "cold_dir", "memory_limit", "nothing is lost"):
        assert part in str(raised.value).replace("scripted://", "scripted:")
    assert not table.log()["sound"]


def scripted(folder: Path) -> dict[str, str]:
    """The settings of a store whose spilled state is on the scripted file system."""
    return {
        **CONFS,
        TAILRACE_CONF + "coldDir": f"scripted://{folder}",
        TAILRACE_CONF + "retryTimeout": "1s",
    }


@pytest.mark.parametrize(
    ("operation", "error"), [("create", "SpillFailed"), ("read", "ColdFileUnreadable")]
)
def test_a_file_system_that_fails_loses_nothing(
    open_provider: Opener, tmp_path: Path, faults: FileFaults, operation: str, error: str
) -> None:
    """Changes of half a batch are forgotten, and the state is loaded again."""
    provider = open_provider(SHAPE, confs=scripted(tmp_path / "cold"))
    rows = {(number,): (f"{number}".ljust(200, "x"),) for number in range(300)}
    for version in range(2):
        assert commit_all(provider, version, list(rows.items())) == version + 1
    store = provider.load(2)  # all is spilled now
    faults.fail(operation, SEGMENT)
    raised = refuses(store.put_all, [([number], ["other"]) for number in range(300)])
    assert raised.class_name.endswith(error)
    store.abort()
    faults.clear()
    again = provider.load(2)
    assert contents(again) == rows
    again.abort()


def test_the_owner_does_not_wait_for_an_upload(table: SpillTable, faults: FileFaults) -> None:
    """A segment is sealed to be cleaned while the owner takes note of an earlier step."""
    table.start(limit=4 * MB, scheme="scripted")
    table.call("open_log")
    with faults.hold("create", SEGMENT) as until_held:
        table.call("clean_later")
        until_held()
        table.call("install_later")
        table.call("result", call="install")
    table.call("result", call="clean")


# ---- reading


def test_a_file_is_opened_once_for_many_reads(table: SpillTable, faults: FileFaults) -> None:
    filled(table)
    for number in sorted(table.spilled())[:200]:
        assert table.get(number, number + 1, size=200) == 1
    opened, read = asked(faults, "open"), asked(faults, "read")
    assert set(opened.values()) == {1}
    assert read.total() > 5 * opened.total()


def test_a_read_that_fails_is_repeated(table: SpillTable, faults: FileFaults) -> None:
    filled(table)
    number = one_in_a_file(table, faults)
    faults.fail("read", SEGMENT, times=2)
    faults.fail("open", SEGMENT, times=1)
    assert table.get(number, number + 1, size=200) == 1
    assert table.log()["sound"]


def test_a_read_that_keeps_failing(table: SpillTable, faults: FileFaults) -> None:
    filled(table)
    number = one_in_a_file(table, faults)
    faults.fail("read", SEGMENT)
    with pytest.raises(StoreError) as raised:
        table.get(number, number + 1, size=200)
    assert raised.value.class_name.endswith("ColdFileUnreadable")
    for part in (str(table.folder), ".cold", "scripted: no read", "cold_dir", "nothing is lost"):
        assert part in str(raised.value)
    assert not table.log()["sound"]


def test_files_that_are_gone(table: SpillTable) -> None:
    """Another process took this one for gone, after a day without a sign of it."""
    filled(table)
    for path in table.files():
        path.unlink()
    with pytest.raises(StoreError) as raised:
        table.get(0, 40_000, size=200)
    assert raised.value.class_name.endswith("ColdFileUnreadable")
    for part in ("FileNotFoundException", "restart the query: nothing is lost"):
        assert part in str(raised.value)
    assert not table.log()["sound"]


def test_reading_ahead_does_not_repeat_what_fails(table: SpillTable, faults: FileFaults) -> None:
    """The look-up that needs the record does."""
    filled(table)
    number = one_in_a_file(table, faults)
    faults.fail("read", SEGMENT, times=1)
    table.call("expect", **{"from": number, "until": number + 1})
    wait_until(lambda: table.call("reading") == 0)
    assert table.call("prefetch")["lost"] == 1
    assert table.log()["sound"]
    assert table.get(number, number + 1, size=200) == 1


# ---- deleting


def test_what_cannot_be_deleted_is_deleted_later(table: SpillTable, faults: FileFaults) -> None:
    filled(table, batches=8)
    faults.fail("delete", "/store-")
    for batch in range(24):  # replaced records are cleaned away, with their files
        table.put(0, 16_000, size=200, step=8 + batch % 3)
        table.next_batch()
    assert table.log()["sound"]
    table.call("close")
    table.is_open = False
    assert [line for line in faults.record if line.startswith("failed delete")]
    assert table.files()
    faults.clear()
    table.call("an_hour_later")
    assert table.files() == []


def test_a_process_says_every_hour_that_it_is_alive(table: SpillTable) -> None:
    table.start(limit=4 * MB, scheme="scripted")
    (alive,) = table.folder.rglob("alive")
    os.utime(alive, (1, 1))
    table.call("an_hour_later")
    assert alive.stat().st_mtime > 1
    alive.unlink()
    table.call("an_hour_later")
    assert alive.exists()


def home(folder: Path, digit: str, hours: float | None) -> Path:
    """The folder of a process with one segment, that said so many hours ago that it is alive."""
    found = folder / f"tailrace-cold-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}"
    (found / "store-1").mkdir(parents=True)
    (found / "store-1" / "0.cold").write_bytes(b"state")
    if hours is not None:
        (found / "alive").touch()
        then = time.time() - hours * HOUR
        os.utime(found / "alive", (then, then))
    return found


def test_only_what_processes_left_that_are_gone_is_swept(
    open_provider: Opener, tmp_path: Path
) -> None:
    folder = tmp_path / "cold"
    gone, last_gone = home(folder, "0", hours=25), home(folder, "f", hours=1_000)
    (gone / "store-1" / "0.slots").touch()
    running = home(folder, "1", hours=23)
    being_made = home(folder, "2", hours=None)
    with_others = home(folder, "3", hours=25)
    (with_others / "notes.txt").touch()
    others_in_store = home(folder, "4", hours=25)
    (others_in_store / "store-1" / "notes.txt").touch()
    (others_in_store / "store-1" / "folder.cold").mkdir()
    other_store = home(folder, "5", hours=25)
    (other_store / "store-of-another").mkdir()
    other_name = folder / "tailrace-cold-7"
    home(folder, "6", hours=25).rename(other_name)

    open_provider(SHAPE, confs={TAILRACE_CONF + "coldDir": folder.as_uri()})
    wait_until(lambda: not last_gone.exists())  # the last one that is looked at
    assert not gone.exists()
    for path in (running, being_made, other_name):
        assert (path / "store-1" / "0.cold").exists()
    assert (with_others / "notes.txt").exists()
    assert sorted(path.name for path in (others_in_store / "store-1").iterdir()) == [
        *("folder.cold", "notes.txt"),
    ]
    assert (other_store / "store-of-another").exists()
    for path in (with_others, others_in_store, other_store):
        assert (path / "alive").exists()
        assert not (path / "store-1" / "0.cold").exists()
    (own,) = set(folder.iterdir()) - {
        *(running, being_made, with_others, others_in_store, other_store, other_name),
    }
    assert (own / "alive").exists()


def test_a_process_that_ends_deletes_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cold"
    with Program("support.cold_process", tmp_path / "query", folder) as program:
        assert program.expect("spilled")["files"] > 0
        assert program.await_end() == 0
    assert list(folder.iterdir()) == []


# ---- options


def test_a_scheme_that_no_file_system_has(open_provider: Opener) -> None:
    confs = {TAILRACE_CONF + "coldDir": "nosuch://host/folder"}
    error = refuses(open_provider, SHAPE, confs=confs)
    assert error.class_name.endswith("UnusableColdDir")
    for part in ("nosuch://host/folder", "cold_dir", "checkpoint is not affected"):
        assert part in str(error)


def test_a_folder_that_cannot_be_made(open_provider: Opener, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    confs = {
        TAILRACE_CONF + "coldDir": (tmp_path / "file" / "folder").as_uri(),
        TAILRACE_CONF + "retryTimeout": "100ms",
    }
    error = refuses(open_provider, SHAPE, confs=confs)
    assert error.class_name.endswith("UnusableColdDir")
    assert str(tmp_path / "file" / "folder") in str(error)


def test_a_store_that_never_spills_asks_for_no_folder(
    open_provider: Opener, tmp_path: Path
) -> None:
    confs = {
        TAILRACE_CONF + "coldDir": (tmp_path / "cold").as_uri(),
        TAILRACE_CONF + "spill": "off",
    }
    provider = open_provider(SHAPE, confs=confs)
    assert commit_all(provider, 0, [([1], ["one"])]) == 1
    assert not (tmp_path / "cold").exists()


@pytest.mark.parametrize("uri", ["/folder", "folder", "file:folder"])
def test_a_folder_without_scheme_or_path(open_provider: Opener, uri: str) -> None:
    error = refuses(open_provider, SHAPE, confs={TAILRACE_CONF + "coldDir": uri})
    assert error.class_name.endswith("InvalidOption")
    assert f"'{uri}'" in str(error)


def test_direct_io_is_for_this_machine(open_provider: Opener, tmp_path: Path) -> None:
    confs = {
        TAILRACE_CONF + "coldDir": (tmp_path / "cold").as_uri(),
        TAILRACE_CONF + "coldIo": "direct",
    }
    error = refuses(open_provider, SHAPE, confs=confs)
    assert error.class_name.endswith("ContradictingOptions")
    for part in ("cold_dir", TAILRACE_CONF + "coldIo", "Remedy: Leave"):
        assert part in str(error)


def test_two_stores_share_a_folder(open_provider: Opener, tmp_path: Path) -> None:
    confs = {TAILRACE_CONF + "coldDir": (tmp_path / "cold").as_uri()}
    rows = {(number,): (f"{number}".ljust(200, "x"),) for number in range(100)}
    providers = [open_provider(SHAPE, partition=number, confs=confs) for number in (0, 1)]
    for provider in providers:
        for version in range(2):
            assert commit_all(provider, version, list(rows.items())) == version + 1
    (shared,) = (tmp_path / "cold").iterdir()
    assert len([path for path in shared.iterdir() if path.name.startswith("store-")]) == 2
    providers[0].close()
    store = providers[1].load(2)
    assert contents(store) == rows
    store.abort()
