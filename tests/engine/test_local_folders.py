"""Other users of the machine can do no harm through the folders that are made on it.

Problem: the temporary folder belongs to all users of a machine. One of them can be first to make a
folder of the name we would take, or leave a link in it that leads to files of another user.
Answer: victims with files that must survive, and folders, links and owners as another user would
make them. The tests run as root, so that a folder of another user can be made with chown.
Invariant: no link is followed, nothing of another user's is read, changed or deleted, and nothing
is deleted but files of the names that the engine gives.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.expectations import commit_all, refuses, state_at
from support.fixtures import Opener
from support.harness import Provider, Shape
from support.stores import TAILRACE_COLD, TAILRACE_CONF, StoreKind

SHAPE = Shape(key="k INT", value="v STRING")
ENTRIES = [([number], ["x" * 100]) for number in range(20)]
STRANGER = 12345


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE_COLD


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """Files that another user wants deleted; they have the very names that the engine gives."""
    folder = tmp_path / "victim"
    (folder / "store-7").mkdir(parents=True)
    files = [folder / "lock", folder / "0.cold", folder / "letter", folder / "store-7" / "0.cold"]
    for file in files:
        file.write_text("precious")
    yield folder
    assert {file: file.read_text() for file in files} == dict.fromkeys(files, "precious")
    assert sorted(folder.rglob("*")) == sorted([*files, folder / "store-7"])


@pytest.fixture
def temporary(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The temporary folder of the process, as all users share one: writable by all, sticky."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    system = spark._jvm.java.lang.System
    before = system.setProperty("java.io.tmpdir", str(folder))
    yield folder
    system.setProperty("java.io.tmpdir", before)


def own_folder(temporary: Path, spark: SparkSession) -> Path:
    return temporary / f"tailrace-{spark._jvm.java.lang.System.getProperty('user.name')}"


def named(folder: Path) -> dict[str, str]:
    return {TAILRACE_CONF + "localDir": str(folder)}


def spill(opener: Opener, confs: dict[str, str] | None = None, partition: int = 0) -> Provider:
    """A store whose state has just moved to files."""
    provider = opener(SHAPE, confs=confs, partition=partition)
    commit_all(provider, 0, ENTRIES)
    provider.load(1).abort()
    return provider


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def abandoned(local: Path) -> Path:
    """The folder of a process that was killed."""
    home = local / "tailrace-cold-1"
    (home / "store-2").mkdir(parents=True)
    (home / "store-2" / "0.cold").write_bytes(b"state")
    (home / "lock").touch()
    return home


# ---- the sweep


def test_the_sweep_follows_no_link_to_a_folder(
    open_provider: Opener, tmp_path: Path, victim: Path
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "tailrace-cold-1").symlink_to(victim)
    spill(open_provider, named(local))
    assert (local / "tailrace-cold-1").is_symlink()


def test_the_sweep_follows_no_link_inside_a_folder(
    open_provider: Opener, tmp_path: Path, victim: Path
) -> None:
    home = abandoned(tmp_path / "local")
    (home / "store-3").symlink_to(victim)
    (home / "store-2" / "1.cold").symlink_to(victim / "0.cold")
    spill(open_provider, named(tmp_path / "local"))
    assert not (home / "store-2" / "0.cold").exists(), "its own files are swept"
    assert (home / "store-3").is_symlink()


def test_the_sweep_locks_no_file_through_a_link(
    open_provider: Opener, tmp_path: Path, victim: Path
) -> None:
    home = abandoned(tmp_path / "local")
    (home / "lock").unlink()
    (home / "lock").symlink_to(victim / "lock")
    spill(open_provider, named(tmp_path / "local"))
    assert (home / "store-2" / "0.cold").exists()


@pytest.mark.parametrize("owner", [STRANGER, 0], ids=["a stranger's", "writable by all"])
def test_the_sweep_leaves_what_another_user_could_have_made(
    open_provider: Opener, tmp_path: Path, owner: int
) -> None:
    home = abandoned(tmp_path / "local")
    if owner == STRANGER:
        for path in (home, *home.rglob("*")):
            os.chown(path, STRANGER, STRANGER)
    else:
        home.chmod(0o777)
    spill(open_provider, named(tmp_path / "local"))
    assert (home / "store-2" / "0.cold").read_bytes() == b"state"


def test_the_sweep_deletes_only_files_with_names_of_ours(
    open_provider: Opener, tmp_path: Path
) -> None:
    home = abandoned(tmp_path / "local")
    kept = [home / "letter", home / "store-2" / "letter", home / "other" / "0.cold"]
    (home / "other").mkdir()
    (home / "store-2" / "3.cold").mkdir()
    for file in kept:
        file.write_text("precious")
    spill(open_provider, named(tmp_path / "local"))
    assert not (home / "store-2" / "0.cold").exists()
    assert [file.read_text() for file in kept] == ["precious"] * 3
    assert (home / "store-2" / "3.cold").is_dir()


# ---- the folder itself


def test_the_default_folder_is_this_users_alone(
    open_provider: Opener, spark: SparkSession, temporary: Path
) -> None:
    provider = spill(open_provider)
    (own,) = temporary.iterdir()
    assert own == own_folder(temporary, spark)
    folders = [own, *(path for path in own.rglob("*") if path.is_dir())]
    assert len(folders) == 3  # the user's, the process's, the store's
    assert [mode(folder) for folder in folders] == [0o700] * 3
    assert state_at(provider, 1) == {(key,): ("x" * 100,) for key in range(20)}


def test_a_default_folder_that_others_can_only_read_is_closed(
    open_provider: Opener, spark: SparkSession, temporary: Path
) -> None:
    own = own_folder(temporary, spark)
    own.mkdir(mode=0o755)
    own.chmod(0o755)
    spill(open_provider)
    assert mode(own) == 0o700


def belong_to_a_stranger(own: Path, victim: Path) -> None:
    del victim
    own.mkdir()
    os.chown(own, STRANGER, STRANGER)


def be_writable_by_the_group(own: Path, victim: Path) -> None:
    del victim
    own.mkdir()
    own.chmod(0o770)


def be_writable_by_all(own: Path, victim: Path) -> None:
    del victim
    own.mkdir()
    own.chmod(0o1777)


def be_a_link(own: Path, victim: Path) -> None:
    own.symlink_to(victim)


def be_a_file(own: Path, victim: Path) -> None:
    del victim
    own.write_text("in the way")


Making = Callable[[Path, Path], None]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (belong_to_a_stranger, str(STRANGER)),
        (be_writable_by_the_group, "770"),
        (be_writable_by_all, "1777"),
        (be_a_link, "symbolic link"),
        (be_a_file, "not a folder"),
    ],
)
def test_a_default_folder_that_is_not_this_users_alone_is_refused(
    open_provider: Opener,
    spark: SparkSession,
    temporary: Path,
    victim: Path,
    make: Making,
    said: str,
) -> None:
    own = own_folder(temporary, spark)
    make(own, victim)
    provider = open_provider(SHAPE)
    commit_all(provider, 0, ENTRIES)
    error = refuses(provider.load, 1)
    assert error.class_name.endswith("UnusableLocalFolder")
    for part in (str(own), said, "Cause:", "Remedy:", "local_dir"):
        assert part in str(error)
    if own.is_dir() and not own.is_symlink():
        assert list(own.iterdir()) == []
        own.rmdir()
    else:
        own.unlink()
    # The committed version is in the checkpoint, and the folder can be made now.
    assert len(state_at(provider, 1)) == 20


def test_a_named_folder_may_be_shared(open_provider: Opener, tmp_path: Path, victim: Path) -> None:
    """It is a stranger's, all may write to it, and it is named by a link: as the user says."""
    shared = tmp_path / "disk"
    shared.mkdir()
    shared.chmod(0o1777)
    os.chown(shared, STRANGER, STRANGER)
    link = tmp_path / "link"
    link.symlink_to(shared)
    spill(open_provider, named(link))
    (home,) = shared.iterdir()
    assert mode(home) == 0o700
    assert mode(shared) == 0o1777


def test_a_named_folder_that_cannot_be_made_is_an_error(
    open_provider: Opener, tmp_path: Path
) -> None:
    (tmp_path / "local").write_text("in the way")
    provider = open_provider(SHAPE, confs=named(tmp_path / "local" / "below"))
    commit_all(provider, 0, ENTRIES)
    error = refuses(provider.load, 1)
    assert error.class_name.endswith("UnusableLocalFolder")
    assert "local_dir" in str(error)


def test_a_folder_that_was_exchanged_is_noticed(
    open_provider: Opener, tmp_path: Path, victim: Path
) -> None:
    """By a link, where the process has made a folder before."""
    local = tmp_path / "local"
    spill(open_provider, named(local))
    (home,) = local.iterdir()
    home.rename(tmp_path / "moved")
    home.symlink_to(victim)
    provider = open_provider(SHAPE, partition=1, confs=named(local))
    commit_all(provider, 0, ENTRIES)
    error = refuses(provider.load, 1)
    assert error.class_name.endswith("UnusableLocalFolder")
    assert "symbolic link" in str(error)


def test_a_folder_that_was_deleted_is_made_again(open_provider: Opener, tmp_path: Path) -> None:
    """As programs that tidy temporary folders up delete it."""
    local = tmp_path / "local"
    spill(open_provider, named(local)).close()
    (home,) = local.iterdir()
    (home / "lock").unlink()
    home.rmdir()
    assert len(state_at(spill(open_provider, named(local), partition=1), 1)) == 20
    assert len(list(local.rglob("*.cold"))) == 1
