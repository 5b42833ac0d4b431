"""Hints between executors that are processes of their own, one of which is killed.

Problem: in local mode hints reach their store within one process; whether they cross to another
one, and what the loss of an executor does to those on their way and to the routes, shows only where
there are several.
Answer: a cluster of two executors on this machine (support/hinting.py).
Invariant: every key of a batch reaches the store that owns it, whichever executor that is; the loss
of an executor costs time, and the rows are right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.hinting import WORDS
from support.processes import Program


def gained(counts: list[dict[str, int]], name: str) -> int:
    """In the last batch."""
    return counts[-1][name] - counts[-2][name]


def run(folder: Path, hints: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with Program("support.hinting", folder, hints) as program:
        before = program.expect("before")
        after = program.expect("after")
        program.expect("over")
    assert before["right"] and after["right"]
    return before, after


def test_hints_cross_and_come_again_after_a_loss(tmp_path: Path) -> None:
    for part in run(tmp_path, "on"):
        counts = part["counts"]
        # All keys came from one task: without the channel those of one executor's partitions miss.
        assert gained(counts, "tailraceHintsReceived") == len(WORDS), counts
        assert gained(counts, "tailraceHintsInTime") == len(WORDS), counts
        assert counts[-1]["tailracePrefetchHits"] > len(WORDS) // 2, counts


def test_without_hints_none_cross(tmp_path: Path) -> None:
    for part in run(tmp_path, "off"):
        assert part["counts"][-1]["tailraceHintsReceived"] == 0
