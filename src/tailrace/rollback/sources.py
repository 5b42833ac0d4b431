"""The logs of a query's sources, and how they are set back.

Problem: a file source writes into the checkpoint which files it has read; a query that is set back
would pass them over. Other sources remember nothing of their own.
Answer: the offsets of a batch show the kind of each source. The log of a file source is cut where
the batch ended; the files behind the cut are read again.
Invariant: a source that is not known is refused, unless the user vouches for it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from tailrace.errors import RollbackError
from tailrace.rollback.logs import BatchLog, read_entries, with_checksum

DEFAULT_INTERVAL = 10
INTERVAL_CONF = "spark.sql.streaming.fileSource.log.compactInterval"


def kind_of(offset: str, folder: Path) -> str:
    """The kind of a source by one of its offsets: "file", "kafka", "rate" or "unknown"."""
    try:
        value = json.loads(offset)
    except ValueError:
        return "unknown"
    if isinstance(value, dict):
        if set(value) == {"logOffset"}:
            return "file"
        if value and all(_is_kafka_topic(topic) for topic in value.values()):
            return "kafka"
        if set(value) == {"offset", "timestamp"}:
            return "rate"
    # A rate source notes when it began; sources in memory have numbers, too, but no note.
    if isinstance(value, int) and _notes_its_start(folder / "0"):
        return "rate"
    return "unknown"


def _is_kafka_topic(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(key.isdigit() and isinstance(at, int) for key, at in value.items())
    )


def _notes_its_start(path: Path) -> bool:
    return path.is_file() and re.fullmatch(rb"v1\n\d+\s*", path.read_bytes()) is not None


def files_to_move(
    folder: Path, offset: str | None, vouched: bool, remarks: list[str]
) -> list[Path]:
    """The files of a file source's log behind an offset, after checking that it can be done."""
    last = -1 if offset is None else int(json.loads(offset)["logOffset"])
    log = BatchLog(folder)
    if last >= 0:
        log.chain(last)
    behind = log.after(last)
    again = {
        entry["path"]
        for file in behind
        for entry in read_entries(file)
        if entry.get("batchId", -1) > last
    }
    if not vouched:
        _verify_files(folder, sorted(again))
    if again:
        remarks.append(f"{len(again)} input files of source {folder.name} will be read again.")
    interval = log.compact_interval()
    kept_compact = any(entry.compact and entry.number <= last for entry in log.entries)
    if interval not in (None, DEFAULT_INTERVAL) and not kept_compact:
        remarks.append(
            f"Start the query with {INTERVAL_CONF}={interval}, as the log of source {folder.name} "
            "was written."
        )
    return [path for entry in behind for path in with_checksum(entry.path)]


def _verify_files(folder: Path, paths: list[str]) -> None:
    for path in paths:
        address = urlparse(path)
        if address.scheme not in ("", "file"):
            raise RollbackError(
                f"Whether the input file {path} is still there is not known.",
                f"It is of source {folder.name}, on another file system than this machine's.",
                "See for yourself that the files are there (cleanSource moves or deletes them), "
                "then add --sources-can-be-read-again. Nothing was changed.",
            )
        if not Path(unquote(address.path)).exists():
            raise RollbackError(
                f"The input file {unquote(address.path)} is gone.",
                f"Source {folder.name} read it after the batch, and would have to read it again.",
                "Put it back (with the option cleanSource, Spark moves or deletes what it has "
                "read), or choose a later batch. Nothing was changed.",
            )
