"""The input of a kill test, drawn from a seed.

Problem: after a crash Spark may join two files into one batch, so a query whose result depends on
where batches begin and end cannot tell a lost row from a shifted boundary; and the batch without
data that closes the last windows is forgotten by a restart that falls right before it.
Answer: rows are disordered by less than the watermark's delay, so none is ever late however the
files fall into batches. The last file moves the watermark past everything before it; a closing file
per stream, which the program adds only when all others are used up and published, gives the batch
that runs under that watermark. Its rows stay open and make the final state worth comparing.
Invariant: output and final state depend on kind, seed and number of files, on nothing else.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

SCHEMA = "id LONG, key STRING, ms LONG, amount LONG"
STREAMS = {
    "window": ("events",),
    "join": ("shown", "clicks"),
    "dedup": ("events",),
    "unique": ("events",),
    "session": ("events",),
    "medians": ("events",),
}
KINDS = tuple(STREAMS)

WATERMARK_DELAY = "8 seconds"
STEP_MS = 10_000
# Two seconds less than the delay: no row is even equal to a watermark, where operators differ.
DISORDER_MS = 6_000
ORIGIN_MS = 1_700_000_000_000
# Farther ahead than any window, session or join interval reaches.
FLUSH_MS = 1_000_000
KEYS = 8
ROWS = 20
CLOSING_ROWS = 24
RESENT = 0.4
# Modification times order the files; a source that looks at the clock as well sees old files.
FIRST_MODIFICATION_SECONDS = 1_700_000_000

Row = dict[str, Any]


def prepare(folder: Path, kind: str, seed: int, files: int) -> None:
    """Writes `files` files per stream to `folder`/input and one to `folder`/closing."""
    assert files >= 2, "one file of rows and the one that moves the watermark"
    for stream in STREAMS[kind]:
        chooser = random.Random(f"{seed} {kind} {stream}")
        steps = _regular(chooser, files - 1, RESENT if kind in ("dedup", "unique") else 0.0)
        flush = ORIGIN_MS + files * STEP_MS + FLUSH_MS
        # A key per stream, so that the flush of one side of a join finds no partner.
        steps.append([_row(chooser, 1_000_000, flush) | {"key": f"flush-{stream}"}])
        closing = [
            _row(chooser, 1_000_001 + index, flush - chooser.randrange(5_000))
            for index in range(CLOSING_ROWS)
        ]
        for number, rows in enumerate(steps):
            _write(folder / "input" / stream, number, rows)
        _write(folder / "closing" / stream, files, closing)


def file_name(number: int) -> str:
    return f"{number:04d}.json"


def _regular(chooser: random.Random, files: int, resent: float) -> list[list[Row]]:
    steps: list[list[Row]] = []
    sent: list[Row] = []
    for step in range(files):
        rows: list[Row] = []
        for _ in range(ROWS):
            if sent and chooser.random() < resent:
                # Mostly of late, so that the copy finds its first in the state and not evicted.
                rows.append(chooser.choice(sent[-3 * ROWS :]))
                continue
            at = ORIGIN_MS + step * STEP_MS + chooser.randrange(-DISORDER_MS, STEP_MS)
            rows.append(_row(chooser, step * ROWS + len(rows), at))
        steps.append(rows)
        sent += rows
    return steps


def _row(chooser: random.Random, identifier: int, ms: int) -> Row:
    return {
        "id": identifier,
        "key": f"key-{chooser.randrange(KEYS)}",
        "ms": ms,
        "amount": chooser.randrange(-50, 200),
    }


def _write(folder: Path, number: int, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(number)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    moment = FIRST_MODIFICATION_SECONDS + number * 10
    os.utime(path, (moment, moment))
