"""The temporary folder of a command, removed when the command ends.

Problem: a command that is interrupted, ended by SIGTERM or fails leaves gigabytes of checkpoints in
the temporary folder; and one that is killed cannot tidy up at all.
Answer: SIGTERM becomes an exception, so that every end goes through the same clean-up, which no
second signal can break off. The folder of a killed command is removed by the next one: a living
command holds a lock on a file in its folder.
Invariant: only folders are removed whose name, owner and free lock say that they are a dead
command's. No link is followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PREFIX = "tailrace-session-"
LOCK = "lock"


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for as long as the block lasts, whatever ends it.

    1. Remove the folders of dead commands.
    2. Make the folder and lock it.
    3. Let SIGTERM raise `Terminated` in the block.
    4. In the end remove the folder, deaf to signals.
    """
    # 1.
    sweep(Path(tempfile.gettempdir()))
    # 2.
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            # 3.
            with terminable():
                yield folder
        finally:
            # 4.
            with deaf():
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises `Terminated`, so that the block ends in good order."""
    with _handled(signal.SIGTERM, _terminate):
        yield


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Signals that would break off a clean-up are ignored."""
    with _handled(signal.SIGINT, signal.SIG_IGN), _handled(signal.SIGTERM, signal.SIG_IGN):
        yield


def sweep(parent: Path) -> list[Path]:
    """Removes the folders of this user's commands that were killed; gives those it removed."""
    removed = []
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):  # another command removes it, too, or it is not ours
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            # Without a lock it was made this very moment, or is not a command's: it stays.
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed


def _remove(folder: Path) -> None:
    """The lock last: where a JVM that is about to end still writes, the next one tries again."""
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (folder / LOCK).unlink()
    try:
        folder.rmdir()
    except OSError:
        (folder / LOCK).touch()
        raise


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated


@contextlib.contextmanager
def _handled(number: signal.Signals, handler: object) -> Iterator[None]:
    """Only the main thread may set the handler of a signal; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        signal.signal(number, before)
