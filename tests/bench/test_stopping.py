"""A run that is stopped keeps its measurements and removes its temporary files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fixtures import wait_until

import tailrace
from tailrace.cli._folder import LOCK, PREFIX, sweep, temporary_folder

BENCH = (
    "import sys; from tailrace.cli import main; sys.exit(main(["
    "'bench', 'update', '--rows', '50', '--keys', '20', '--warmup', '0', '--rounds', '1', "
    "'--batches', '100000', '--stores', 'tailrace', '--partitions', '1', '--cores', '1', "
    "'--memory', '1g', '--out', sys.argv[1]]))"
)


@contextlib.contextmanager
def running(out: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A bench that has measured some batches."""
    tailrace.jar()
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-c", BENCH, str(out)], env=environment, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "/100000 batches" in line:
                break
        else:
            pytest.fail("the bench ended by itself")
        assert list(temporary.glob(f"{PREFIX}*")), "its folder is where TMPDIR says"
        yield process
    finally:
        process.kill()
        process.wait()


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def interrupt_thrice(process: subprocess.Popen[str]) -> None:
    """Impatient: at once, in the middle of a batch or of the clean-up."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)


def terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()


def kill_its_spark(process: subprocess.Popen[str]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    for child in map(int, children.split()):
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(interrupt, marks=pytest.mark.long),
        interrupt_thrice,
        terminate,
        pytest.param(kill_its_spark, marks=pytest.mark.long),
    ],
)
def test_a_stopped_run_keeps_its_batches_and_leaves_no_files(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    out, temporary = tmp_path / "result.json", tmp_path / "temporary"
    with running(out, temporary) as process:
        end(process)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 130, told
    found = json.loads(out.read_text())
    assert found["interrupted"] is True
    assert found["runs"][0]["stores"]["tailrace"]["batches"]
    assert "Traceback" not in told
    assert not list(temporary.glob(f"{PREFIX}*"))
    if end is not kill_its_spark:  # a JVM that was killed has no time to delete its own
        assert [path.name for path in temporary.iterdir() if "hsperf" not in path.name] == []


def test_a_killed_commands_folder_is_removed_by_the_next(tmp_path: Path) -> None:
    out, temporary = tmp_path / "result.json", tmp_path / "temporary"
    with running(out, temporary) as process:
        (folder,) = temporary.glob(f"{PREFIX}*")
        assert sweep(temporary) == [], "its command lives"
        assert folder.is_dir()
        process.kill()
        process.wait()
    # Its JVM ends a moment later, and may write until then.
    wait_until(lambda: sweep(temporary) == [folder], f"{folder} is not removed")
    assert not folder.exists()


def made(path: Path, lock: bool = True) -> Path:
    path.mkdir()
    (path / "precious").write_text("kept")
    if lock:
        (path / LOCK).touch()
    return path


def test_nothing_else_is_swept(tmp_path: Path) -> None:
    elsewhere = made(tmp_path / "elsewhere")
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("kept")
    made(tmp_path / f"{PREFIX}unlocked", lock=False)
    made(tmp_path / "tailrace-of-a-user")
    linked = made(tmp_path / f"{PREFIX}linked", lock=False)
    (linked / LOCK).symlink_to(elsewhere / LOCK)
    held = made(tmp_path / f"{PREFIX}held")
    dead = made(tmp_path / f"{PREFIX}dead")
    (dead / "link").symlink_to(elsewhere)
    kept = sorted(path for path in tmp_path.rglob("*") if dead not in (path, *path.parents))
    with (held / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep(tmp_path) == [dead]
    assert sorted(tmp_path.rglob("*")) == kept


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_of_another_user_is_not_swept(tmp_path: Path) -> None:
    theirs = made(tmp_path / f"{PREFIX}theirs")
    os.chown(theirs, 12345, 12345)
    assert sweep(tmp_path) == []
    assert theirs.is_dir()


def test_a_signal_during_the_clean_up_does_not_break_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    really = shutil.rmtree

    def interrupted(path: Path, **options: bool) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        really(path, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with temporary_folder() as folder:
        (folder / "checkpoint").mkdir()
    assert not folder.exists()
    assert signal.getsignal(signal.SIGINT) is before
