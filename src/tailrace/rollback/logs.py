"""Spark's logs, as files.

Problem: a query's progress is written in folders of numbered files, some of which stand for all
that came before them.
Answer: `BatchLog` lists a folder's numbered files; the functions below read the few entries that a
rollback has to understand. Tests with real queries hold them to the files of Spark 4.3.
Invariant: a file that does not look as it should is an error that names it, never a guess.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from tailrace.errors import RollbackError

_NUMBERED = re.compile(r"(\d{1,18})(\.compact)?")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One numbered file; a compact one holds all entries up to its number."""

    number: int
    path: Path
    compact: bool


class BatchLog:
    """The numbered files of a folder, in the order of their numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            match = _NUMBERED.fullmatch(path.name)
            if match and path.is_file():
                found.append(Entry(int(match[1]), path, match[2] is not None))
        self.entries = sorted(found, key=lambda entry: entry.number)

    @property
    def numbers(self) -> list[int]:
        return [entry.number for entry in self.entries]

    def __contains__(self, number: object) -> bool:
        return number in self.numbers

    def path(self, number: int) -> Path:
        return self.folder / str(number)

    def after(self, number: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.number > number]

    def chain(self, last: int) -> list[Entry]:
        """The files that hold all up to an entry: the newest compact one, and those since."""
        until = [entry for entry in self.entries if entry.number <= last]
        compact = [entry.number for entry in until if entry.compact]
        first = max(compact, default=0)
        by_number = {entry.number: entry for entry in until}
        missing = [number for number in range(first, last + 1) if number not in by_number]
        if missing:
            raise RollbackError(
                f"The log {self.folder} no longer holds what it held at entry {last}.",
                f"It is told by the files {first} to {last}, of which "
                f"{', '.join(map(str, missing[:5]))} {'is' if len(missing) == 1 else 'are'} gone: "
                "Spark deletes files that a newer compact one stands for.",
                "Choose a later batch. Nothing was changed.",
            )
        return [by_number[number] for number in range(first, last + 1)]

    def compact_interval(self) -> int | None:
        """Every how many entries the log was compacted, if it was."""
        compact = [entry.number for entry in self.entries if entry.compact]
        if len(compact) >= 2:
            return compact[-1] - compact[-2]
        return compact[0] + 1 if compact else None


def with_checksum(path: Path) -> list[Path]:
    """A file and the checksum that Hadoop's local file system may have written beside it."""
    checksum = path.with_name(f".{path.name}.crc")
    return [path, checksum] if checksum.exists() else [path]


def read_lines(path: Path) -> list[str]:
    """The lines of a log entry after the one with its version, which is returned first."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error)) from None
    if not lines or re.fullmatch(r"v\d+", lines[0]) is None:
        raise _unreadable(path, "Its first line is not the version of a log.")
    return lines


def read_offsets(path: Path) -> dict[str, str | None]:
    """Where each source of a query was at the end of a batch; None: it had not begun."""
    lines = read_lines(path)
    if lines[0] == "v1":
        pairs = [(str(index), line) for index, line in enumerate(lines[2:])]
    elif lines[0] == "v2":
        pairs = [tuple(line.split(":", 1)) for line in lines[2:]]  # type: ignore[misc]
    else:
        raise _unreadable(path, f"Its version is {lines[0]}; known are v1 and v2.")
    return {name: None if offset == "-" else offset for name, offset in pairs}


def read_lineages(path: Path) -> dict[str, list[str]]:
    """By "operator/partition", the names of the state in an entry of `commits`; often empty."""
    lines = read_lines(path)
    metadata = _parsed(path, lines[1]) if len(lines) > 1 else {}
    named = metadata.get("stateUniqueIds") or {}
    return {
        f"{operator}/{partition}": list(ids)
        for operator, partitions in named.items()
        for partition, ids in enumerate(partitions)
    }


def read_entries(entry: Entry) -> list[dict[str, Any]]:
    """The entries in a file of a file source's or a file sink's log."""
    return [_parsed(entry.path, line) for line in read_lines(entry.path)[1:]]


def _parsed(path: Path, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise _unreadable(path, f"A line is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _unreadable(path, f"A line is not an object: {line[:60]}")
    return found


def _unreadable(path: Path, why: str) -> RollbackError:
    return RollbackError(
        f"The log entry {path} cannot be read.",
        why,
        "Restore the file from a copy, or choose another batch. Nothing was changed.",
    )
