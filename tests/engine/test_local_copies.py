"""Copies on the executor's own disk make a restart fast, and never make it wrong.

Problem: a copy can be old, of another run, cut short or damaged, and no process guards it.
Answer: the checkpoint says which files there are and of which lineage; a copy is read in place of
one of them only if it is the same, down to its last checksum. Here copies are spoiled in every way,
and stores are loaded beside them.
Invariant: with copies or without, a load gives the same state; a copy alone gives none.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import statefile
from support.expectations import commit_all, contents, state_at
from support.fixtures import Opener, wait_for
from support.harness import Row, Shape, StoreError
from support.queries import Query, QueryHarness
from support.seeds import SEED
from support.stores import TAILRACE_CONF

SHAPE = Shape(key="k LONG", value="v LONG")
# Without compression, so that files of the same changes to other values have the same length.
PLAIN = {TAILRACE_CONF + "compression": "none"}
SNAPSHOT = "2.snapshot.tr"


@dataclass(frozen=True)
class Load:
    """The state after a load, how many files it took, and how many of them were copies."""

    state: dict[Row, Row]
    files: int
    copies: int


class Machine:
    """A checkpoint of one store: three versions, a snapshot of the second, and copies of it all."""

    def __init__(
        self,
        queries: QueryHarness,
        opener: Opener,
        folder: Path,
        sign: int = 1,
        restart: str = "eager",
    ) -> None:
        self.opener = opener
        self.local = folder
        self.restart = restart
        self.confs = {
            **PLAIN,
            TAILRACE_CONF + "localDir": str(folder),
            TAILRACE_CONF + "restart": restart,
        }
        query = Query(queries, opener, SHAPE, partitions=1, confs=self.confs)
        self.packs = [
            query.commit(
                batch,
                [([key], [sign * (key + batch)]) for key in range(20)],
                force_snapshot=batch == 1,
            )
            for batch in range(3)
        ]
        self.snapshot = opener.directory / "0" / "0" / SNAPSHOT
        wait_for(self.snapshot)
        query.stop()
        self.expected = {(key,): (sign * (key + 2),) for key in range(20)}

    def load(self, version: int = 3, *, with_copies: bool = True) -> Load:
        store = self.opener(SHAPE, confs=self.confs if with_copies else PLAIN).load(version)
        state = contents(store)
        metrics = store.metrics()["custom"]
        store.abort()
        return Load(state, metrics["tailraceLoadedFiles"], metrics["tailraceLocalFilesLoaded"])

    def copy_of(self, file: Path) -> Path:
        (copy,) = self.local.glob(f"*/{file.name}")
        return copy


@pytest.fixture(params=["eager", "always"], ids=["eager", "lazy"])
def machine(
    queries: QueryHarness,
    open_provider: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Machine:
    return Machine(queries, open_provider, tmp_path / "local", restart=request.param)


@pytest.fixture
def other(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path, machine: Machine
) -> Machine:
    """The same query on another checkpoint: the same names and lengths, other lineages."""
    opener = open_provider.elsewhere(tmp_path / "other" / "state")
    folder = tmp_path / "other local"
    return Machine(queries, opener, folder, sign=-1, restart=machine.restart)


def test_a_restart_loads_from_copies(machine: Machine) -> None:
    """The snapshot of version 2 and the pack of version 3."""
    assert machine.load() == Load(machine.expected, files=2, copies=2)
    assert machine.load(with_copies=False) == Load(machine.expected, files=2, copies=0)


def test_copies_are_the_same_files(machine: Machine) -> None:
    for file in (*machine.packs, machine.snapshot):
        assert machine.copy_of(file).read_bytes() == file.read_bytes()


def test_a_block_of_a_copy_that_turns_out_to_be_damaged(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    """The restart has not read it; the look-up does, and takes the checkpoint's file."""
    machine = Machine(queries, open_provider, tmp_path / "local", restart="always")
    copy = machine.copy_of(machine.snapshot)
    data = bytearray(copy.read_bytes())
    for section in statefile.read_index(bytes(data)):
        for place in section.places:
            data[place.offset + place.length - 1] ^= 1
    copy.write_bytes(bytes(data))
    assert machine.load() == Load(machine.expected, files=2, copies=2)


# ---- copies that are damaged or of another file


def cut_short(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-30])


def cut_to_a_few_bytes(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:10])


def empty(copy: Path) -> None:
    copy.write_bytes(b"")


def add_bytes(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes() + b"more")


def flip_a_bit_of_the_contents(copy: Path) -> None:
    data = bytearray(copy.read_bytes())
    data[-50] ^= 4
    copy.write_bytes(bytes(data))


def flip_a_bit_of_the_start(copy: Path) -> None:
    data = bytearray(copy.read_bytes())
    data[20] ^= 1
    copy.write_bytes(bytes(data))


def put_a_folder_in_its_place(copy: Path) -> None:
    copy.unlink()
    copy.mkdir()


def remove(copy: Path) -> None:
    copy.unlink()


@pytest.mark.parametrize("which", ["pack", "snapshot"])
@pytest.mark.parametrize(
    "spoil",
    [
        cut_short,
        cut_to_a_few_bytes,
        empty,
        add_bytes,
        flip_a_bit_of_the_contents,
        flip_a_bit_of_the_start,
        put_a_folder_in_its_place,
        remove,
    ],
)
def test_a_spoiled_copy_is_passed_over(
    machine: Machine, which: str, spoil: Callable[[Path], None]
) -> None:
    spoil(machine.copy_of(machine.packs[2] if which == "pack" else machine.snapshot))
    # Where in a pack the part is, the checkpoint's index says as well; the part itself is whole.
    served = 2 if (spoil, which) == (flip_a_bit_of_the_start, "pack") else 1
    assert machine.load() == Load(machine.expected, files=2, copies=served)


def test_no_flipped_bit_of_a_copy_gives_a_wrong_answer(machine: Machine) -> None:
    print(f"seed {SEED}: TAILRACE_SEED={SEED} replays this")
    chooser = random.Random(SEED)
    for file in (machine.packs[2], machine.snapshot):
        copy = machine.copy_of(file)
        for position in chooser.sample(range(file.stat().st_size * 8), 40):
            damaged = bytearray(file.read_bytes())
            damaged[position // 8] ^= 1 << (position % 8)
            copy.write_bytes(bytes(damaged))
            found = machine.load()
            assert found.state == machine.expected, f"bit {position} of {file.name}"
            assert found.files == 2
        shutil.copy(file, copy)


@pytest.mark.parametrize("which", ["pack", "parts of a pack", "snapshot"])
def test_a_copy_of_another_run_is_passed_over(machine: Machine, other: Machine, which: str) -> None:
    """Same name, same length, whole, and of another lineage."""
    if which == "snapshot":
        foreign, copy = other.snapshot.read_bytes(), machine.copy_of(machine.snapshot)
    else:
        foreign, copy = other.packs[2].read_bytes(), machine.copy_of(machine.packs[2])
    if which == "parts of a pack":
        index = statefile.read_pack(machine.packs[2]).index
        foreign = index + foreign[len(index) :]
    assert len(foreign) == copy.stat().st_size
    assert foreign != copy.read_bytes()
    copy.write_bytes(foreign)
    assert machine.load() == Load(machine.expected, files=2, copies=1)


def test_checkpoints_do_not_share_copies(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    opener = open_provider.elsewhere(tmp_path / "other" / "state")
    machines = [
        Machine(queries, open_provider, tmp_path / "local"),
        Machine(queries, opener, tmp_path / "local", sign=-1),
    ]
    for machine in machines:
        assert machine.load() == Load(machine.expected, files=2, copies=2)


# ---- the checkpoint is the truth


def test_a_copy_is_not_used_where_the_checkpoint_has_no_such_pack(machine: Machine) -> None:
    machine.packs[2].unlink()
    with pytest.raises(StoreError, match="MissingFile") as caught:
        machine.load()
    assert "3-*.pack.tr" in str(caught.value)


def test_a_copy_is_not_used_where_the_checkpoint_has_no_such_snapshot(machine: Machine) -> None:
    machine.snapshot.unlink()
    assert machine.load() == Load(machine.expected, files=3, copies=3)


def test_a_query_that_was_set_back_loads_what_it_wrote_then(
    queries: QueryHarness, machine: Machine
) -> None:
    """Copies of the former run's packs are still there; the checkpoint has others now."""
    query = Query(queries, machine.opener, SHAPE, partitions=1, committed=0, confs=machine.confs)
    query.remove_packs_after(1)
    for batch in (1, 2):
        query.commit(batch, [([0], [-batch])])
    query.stop()
    expected = {(key,): (key,) for key in range(20)} | {(0,): (-2,)}
    assert machine.load() == Load(expected, files=3, copies=3)


# ---- where and how long they are kept


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    """A file stands where the copies would go: root may write anywhere, but not that."""
    (tmp_path / "local").write_text("in the way")
    machine = Machine(queries, open_provider, tmp_path / "local")
    assert machine.load() == Load(machine.expected, files=2, copies=0)


def test_old_copies_are_removed(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    confs = {
        TAILRACE_CONF + "localDir": str(tmp_path / "local"),
        TAILRACE_CONF + "maxDeltas": "2",
        "spark.sql.streaming.minBatchesToRetain": "1",
    }
    query = Query(queries, open_provider, SHAPE, partitions=1, confs=confs)
    for batch in range(8):
        query.commit(batch, [([batch], [batch])])
        if batch % 2:
            open_provider.wait_for_snapshot(
                open_provider.directory / "0" / "0" / f"{batch + 1}.snapshot.tr"
            )
    query.stop()
    names = sorted(path.name for path in (tmp_path / "local").glob("*/*"))
    assert [name for name in names if name.endswith(".snapshot.tr")] == ["8.snapshot.tr"]
    packs = [int(name.partition("-")[0]) for name in names if name.endswith(".pack.tr")]
    assert packs == [5, 6, 7, 8], "as many as a restart may need: max_deltas and those retained"


def test_stores_outside_of_a_query_make_no_copies_of_changes(
    open_provider: Opener, tmp_path: Path
) -> None:
    confs = {TAILRACE_CONF + "localDir": str(tmp_path / "local")}
    commit_all(open_provider(SHAPE, confs=confs), 0, [([1], [1])])
    assert list((tmp_path / "local").glob("*/*")) == []
    assert state_at(open_provider(SHAPE, confs=confs), 1) == {(1,): (1,)}


# ---- other users of the machine

STRANGER = 12345


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_copies_are_this_users_alone(machine: Machine) -> None:
    assert [mode(folder) for folder in machine.local.iterdir()] == [0o700, 0o700]
    assert {mode(copy) for copy in machine.local.glob("*/*")} == {0o600}


def give_to_a_stranger(folder: Path) -> None:
    os.chown(folder, STRANGER, STRANGER)


def open_to_the_group(folder: Path) -> None:
    folder.chmod(0o770)


def open_to_all(folder: Path) -> None:
    folder.chmod(0o707)


def put_a_link_in_its_place(folder: Path) -> None:
    folder.rename(folder.parent.parent / folder.name)
    folder.symlink_to(folder.parent.parent / folder.name)


@pytest.mark.parametrize(
    "spoil", [give_to_a_stranger, open_to_the_group, open_to_all, put_a_link_in_its_place]
)
def test_copies_are_not_read_from_a_folder_that_is_not_ours(
    queries: QueryHarness, machine: Machine, spoil: Callable[[Path], None]
) -> None:
    """Nor written to it, nor is a file deleted in it; the query goes on without copies."""
    for folder in list(machine.local.iterdir()):
        spoil(folder)
    before = {path: path.read_bytes() for path in machine.local.glob("*/*")}
    assert len(before) == 4
    assert machine.load() == Load(machine.expected, files=2, copies=0)
    query = Query(queries, machine.opener, SHAPE, partitions=1, committed=2, confs=machine.confs)
    query.commit(3, [([0], [77])], force_snapshot=True)
    wait_for(machine.snapshot.with_name("4.snapshot.tr"))
    query.stop()
    assert {path: path.read_bytes() for path in machine.local.glob("*/*")} == before


@pytest.mark.parametrize("which", ["pack", "snapshot"])
@pytest.mark.parametrize("how", ["stranger's", "writable", "link"])
def test_a_copy_that_is_not_ours_is_passed_over(machine: Machine, which: str, how: str) -> None:
    copy = machine.copy_of(machine.packs[2] if which == "pack" else machine.snapshot)
    if how == "stranger's":
        os.chown(copy, STRANGER, STRANGER)
    elif how == "writable":
        copy.chmod(0o666)
    else:
        target = copy.rename(machine.local.parent / "elsewhere")
        copy.symlink_to(target)
    assert machine.load() == Load(machine.expected, files=2, copies=1)


def test_a_copy_replaces_a_link_and_not_what_it_leads_to(
    queries: QueryHarness, machine: Machine
) -> None:
    letter = machine.local.parent / "letter"
    letter.write_text("precious")
    copy = machine.copy_of(machine.packs[2])
    copy.unlink()
    copy.symlink_to(letter)
    query = Query(queries, machine.opener, SHAPE, partitions=1, committed=1, confs=machine.confs)
    entries = [([key], [key + 2]) for key in range(20)]
    assert query.commit(2, entries) == machine.packs[2]
    query.stop()
    assert letter.read_text() == "precious"
    assert not copy.is_symlink()
    assert copy.read_bytes() == machine.packs[2].read_bytes()


def test_only_copies_are_removed(
    queries: QueryHarness, open_provider: Opener, tmp_path: Path
) -> None:
    """Old copies go; a folder, or a file of another name, is nothing of ours."""
    machine = Machine(queries, open_provider, tmp_path / "local")
    folder = machine.copy_of(machine.packs[0]).parent
    old_name = folder / f"0-{7:016x}.pack.tr"
    old_name.mkdir()
    (folder / "letter").write_text("precious")
    left = folder / f".{machine.packs[0].name}.{uuid.uuid4()}.tmp"
    left.write_text("a write that was interrupted")
    os.utime(left, (0, 0))
    confs = {
        **machine.confs,
        TAILRACE_CONF + "maxDeltas": "1",
        "spark.sql.streaming.minBatchesToRetain": "1",
    }
    query = Query(queries, open_provider, SHAPE, partitions=1, committed=2, confs=confs)
    query.commit(3, [([0], [1])])
    query.stop()
    assert not (folder / machine.packs[0].name).exists()
    assert old_name.is_dir()
    assert (folder / "letter").read_text() == "precious"
    assert not left.exists()
