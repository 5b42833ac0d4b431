"""Moves the files of a plan, so that an interruption does no harm.

Problem: a machine may go down in the middle, and a query that starts on half a rollback would go
wrong without saying so.
Answer: the file `metadata` is moved out first and put back last. Spark refuses to start a query
whose checkpoint has offsets and no `metadata`, and a second call finishes the first one's work.
Steps:
  1. The manifest is written: every file, where it was and where it goes; "begun".
  2. `metadata` is moved out.
  3. The files are moved; the manifest says "moved".
  4. `metadata` is put back; the manifest says "done".
Invariant: a file is at its old or at its new place, whole, at any moment. After step 3 nothing is
moved again, so that files written by a query since then are safe.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tailrace.errors import RollbackError
from tailrace.rollback.logs import BatchLog
from tailrace.rollback.plan import Move, Plan

PREFIX = ".rolled-back-"
MANIFEST = "manifest.json"
_METADATA = "metadata"


def apply(plan: Plan) -> Path:
    """Carries a plan out; returns the folder that now holds the moved files."""
    folder = _new_folder(plan.checkpoint)
    manifest = {
        "status": "begun",
        "checkpoint": str(plan.checkpoint),
        "batch": plan.batch,
        "moved": [{"from": str(move.source), "to": move.target} for move in plan.moves],
        "output_files_that_count_no_more": list(plan.forgotten),
        "to_undo": "Move every file in 'moved' from 'to', in this folder, back to 'from'. Files "
        "that a query has written since then have to be moved away first.",
    }
    _write(folder, manifest)  # 1.
    _finish(folder, manifest, plan.moves)
    return folder


@dataclasses.dataclass(frozen=True)
class Interrupted:
    """A rollback that was begun and not finished."""

    folder: Path
    batch: int

    def finish(self) -> None:
        manifest = _read(self.folder)
        moves = [Move(Path(move["from"]), move["to"]) for move in manifest["moved"]]
        _finish(self.folder, manifest, moves)


def interrupted(checkpoint: Path) -> Interrupted | None:
    """The rollback that has to be finished first, if there is one."""
    for path in sorted(checkpoint.glob(f"{PREFIX}*/{MANIFEST}")):
        manifest = _read(path.parent)
        has_begun = (path.parent / _METADATA).exists()
        if manifest["status"] in ("begun", "moved") and has_begun:
            return Interrupted(path.parent, manifest["batch"])
    return None


def _finish(folder: Path, manifest: dict[str, Any], moves: Iterable[Move]) -> None:
    kept = folder.parent / _METADATA
    if manifest["status"] == "begun":
        if kept.exists():
            kept.replace(folder / _METADATA)  # 2.
        for move in moves:  # 3.
            _move(move.source, folder / move.target)
        _verify_end(folder.parent, manifest["batch"])
        _write(folder, manifest | {"status": "moved"})
    (folder / _METADATA).replace(kept)  # 4.
    _write(folder, manifest | {"status": "done"})


def _verify_end(checkpoint: Path, batch: int) -> None:
    later = [
        entry.path
        for name in ("commits", "offsets")
        for entry in BatchLog(checkpoint / name).after(batch)
    ]
    if later:
        raise RollbackError(
            "The query is running, or was until now.",
            f"{later[0]} was written after the rollback was planned.",
            "Stop the query, move this file away and run the command again. The query does not "
            "start before.",
        )


def _move(source: Path, target: Path) -> None:
    if target.exists() and not source.exists():
        return  # moved before the interruption
    if target.exists() and source.read_bytes() != target.read_bytes():
        raise RollbackError(
            f"There are two files that cannot both be right: {source} and {target}.",
            "The rollback was interrupted, and the checkpoint was written to since then.",
            "See which of the two is of the state before the rollback, keep it as the second, and "
            "run the command again.",
        )
    if not source.exists():
        raise RollbackError(
            f"{source} is gone.",
            "It was there when the rollback was planned: another process changes the checkpoint.",
            "Stop that process, put the file back and run the command again, which finishes what "
            "was begun.",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.replace(target)
    except OSError:  # another file system: whole there before it is deleted here
        half = target.with_name(f"{target.name}.half")
        shutil.copy2(source, half)
        half.replace(target)
        source.unlink()


def _new_folder(checkpoint: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1000):
        folder = checkpoint / f"{PREFIX}{stamp}{f'-{number}' if number else ''}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError(f"a thousand rollbacks of {checkpoint} in one second")


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    hidden = folder / f".{MANIFEST}"
    with hidden.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(folder / MANIFEST)


def _read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found
