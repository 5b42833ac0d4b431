"""A table that spills, in the hands of a test (tests/jvm/SpillHarness.scala).

Problem: through Spark's interface a spilled record reads like any other.
Answer: one family of the real table, with a budget and an I/O scheduler of its own.
Invariant: a record is named by its number; the rest of it is filler.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from support.harness import HarnessJar, Remote


class SpillTable(Remote):
    """A table with one family; records are numbers with a filler."""

    def __init__(self, jar: HarnessJar, folder: Path, io: str = "buffered") -> None:
        """`io`: "buffered" or "direct", in files on this machine, or "remote"."""
        super().__init__(jar, "SpillHarness")
        self.folder = folder
        self.io = io
        self.is_open = False

    def start(self, limit: int, **options: Any) -> None:
        self.call("new", limit=limit, folder=str(self.folder), **{"io": self.io, **options})
        self.is_open = True

    def put(self, start: int, end: int, size: int = 80, step: int = 1) -> None:
        self.call("put", **{"from": start, "until": end, "by": step, "size": size})

    def append(self, start: int, end: int, size: int = 80) -> None:
        self.call("append", **{"from": start, "until": end, "size": size})

    def get(self, start: int, end: int, size: int = 80, step: int = 1) -> int:
        """How many of these have a value of this size."""
        found: int = self.call("get", **{"from": start, "until": end, "by": step, "size": size})
        return found

    def remove(self, start: int, end: int) -> None:
        self.call("remove", **{"from": start, "until": end})

    def remember(self, number: int) -> None:
        """Where the value of this record is: `bytes_there` reads there, whatever became of it."""
        self.call("remember", **{"from": number, "until": number + 1})

    def bytes_there(self) -> bytes:
        return base64.b64decode(self.call("bytes_there"))

    def values(self, start: int, end: int) -> int:
        found: int = self.call("values", **{"from": start, "until": end})
        return found

    def next_batch(self) -> None:
        self.call("apply")
        self.call("begin")

    def words(self) -> list[tuple[int, bool]]:
        """Number, and whether it is in memory, in the order of the table."""
        return [(word, True) if word >= 0 else (-1 - word, False) for word in self.call("words")]

    def spilled(self) -> set[int]:
        return {number for number, resident in self.words() if not resident}

    def log(self) -> dict[str, int]:
        found: dict[str, int] = self.call("log")
        return found

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.cold"))

    def used(self) -> int:
        return int(self.call("budget")["used"])
