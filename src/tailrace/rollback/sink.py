"""The log of a file sink, and how later batches are removed from it.

Problem: a file sink notes each batch in its own folder, and passes over a batch that is in its log:
a query that is set back would lose the batch's rows.
Answer: the entries of later batches are moved out of the log. Their files stay where they are, but
count no more, because Spark reads only files that the log names.
Invariant: the log's files that stay name the same output files up to the batch.
"""

from __future__ import annotations

from pathlib import Path

from tailrace.errors import RollbackError
from tailrace.rollback.logs import BatchLog, Entry, read_entries, with_checksum

LOG = "_spark_metadata"
DEFAULT_INTERVAL = 10
INTERVAL_CONF = "spark.sql.streaming.fileSink.log.compactInterval"


def files_to_move(folder: Path, batch: int, remarks: list[str]) -> tuple[list[Path], list[str]]:
    """The files of the sink's log behind a batch, and the output files that count no more."""
    log = BatchLog(folder / LOG)
    if not log.entries:
        raise RollbackError(
            f"{folder} is not the folder of a file sink.",
            f"There is no log of batches in {folder / LOG}.",
            "Name the folder that the query's writeStream was given. Nothing was changed.",
        )
    if log.numbers[-1] < batch:
        raise RollbackError(
            f"{folder} is not the folder of this query's sink, or it was set back before.",
            f"Its log ends with batch {log.numbers[-1]}, before batch {batch}.",
            "Name the folder that the query's writeStream was given. Nothing was changed.",
        )
    kept = _files(log.chain(batch))
    everything = _files(log.chain(log.numbers[-1]))
    forgotten = sorted(everything - kept)
    behind = log.after(batch)
    if forgotten:
        remarks.append(
            f"{len(forgotten)} files that later batches wrote stay in {folder}, but count no more "
            f"for Spark. Other programs that read the folder without {LOG} see them; their names "
            "are in the manifest."
        )
    interval = log.compact_interval()
    kept_compact = any(entry.compact and entry.number <= batch for entry in log.entries)
    if interval not in (None, DEFAULT_INTERVAL) and not kept_compact:
        remarks.append(
            f"Start the query with {INTERVAL_CONF}={interval}, as the sink's log was written."
        )
    return [path for entry in behind for path in with_checksum(entry.path)], forgotten


def _files(chain: list[Entry]) -> set[str]:
    return {
        entry["path"]
        for file in chain
        for entry in read_entries(file)
        if entry.get("action", "add") == "add"
    }
