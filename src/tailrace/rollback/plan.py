"""The files that have to be moved so that a query goes on from the end of a batch.

Problem: half a rollback is worse than none.
Answer: everything is read and checked first, in the order below, and the result is a list of files.
  1. The checkpoint is one, on this machine, and has been quiet.
  2. The batch was published, and its offsets and those before it are there.
  3. The sink: a file sink's log can be cut, or the user says that the sink replaces batches.
  4. The sources: known ones, whose logs can be cut.
  5. The state at the end of the batch can be loaded, file by file.
Invariant: planning changes nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlparse

from tailrace.errors import RollbackError
from tailrace.rollback import sink, sources, state
from tailrace.rollback.logs import BatchLog, read_offsets, with_checksum

# How many batches before one that cannot be loaded are tried, to name one that can.
EARLIER_BATCHES = 3


@dataclasses.dataclass(frozen=True)
class Request:
    """The user's wishes, and the facts that the user vouches for."""

    checkpoint: str
    batch: int
    file_sink: str | None = None
    sink_replaces_batches: bool = False
    sources_can_be_read_again: bool = False
    quiet_seconds: float = 30.0


@dataclasses.dataclass(frozen=True)
class Move:
    """A file, and where it goes below the rollback's folder."""

    source: Path
    target: str


@dataclasses.dataclass(frozen=True)
class Plan:
    checkpoint: Path
    batch: int
    moves: tuple[Move, ...]
    forgotten: tuple[str, ...]
    """Output files that count no more."""
    remarks: tuple[str, ...]


def plan(request: Request, tell: Callable[[str], None] = lambda _: None) -> Plan:
    """The files to move; raises `RollbackError` if the query cannot be set back so."""
    batch = request.batch
    # 1.
    checkpoint = local(request.checkpoint)
    verify_checkpoint(checkpoint)
    verify_quiet(checkpoint, request.quiet_seconds)
    # 2.
    offsets, commits = BatchLog(checkpoint / "offsets"), BatchLog(checkpoint / "commits")
    _verify_batch(batch, offsets, commits)
    moves = [
        Move(path, f"{log.folder.name}/{path.name}")
        for log in (commits, offsets)
        for entry in log.after(batch)
        for path in with_checksum(entry.path)
    ]
    # 3.
    remarks: list[str] = []
    forgotten: list[str] = []
    if request.file_sink is not None:
        folder = local(request.file_sink)
        entries, forgotten = sink.files_to_move(folder, batch, remarks)
        moves += [Move(path, f"file-sink/{sink.LOG}/{path.name}") for path in entries]
    elif request.sink_replaces_batches:
        remarks.append(
            f"The sink will be given the rows of the batches after {batch} again, under the same "
            "numbers, but not always cut as before. It has to replace what it has of them: a sink "
            "that passes over numbers it has seen would lose rows."
        )
    else:
        raise _which_sink(batch)
    # 4.
    moves += [
        Move(path, str(path.relative_to(checkpoint)))
        for path in _of_sources(checkpoint, request, offsets, remarks)
    ]
    # 5.
    tell(f"Checking the state at the end of batch {batch}, file by file …")
    moves += [
        Move(path, str(path.relative_to(checkpoint)))
        for path in state.files_to_move(checkpoint / "state", batch)
    ]
    found = state.problems(checkpoint, batch)
    if found:
        raise _not_loadable(checkpoint, batch, commits, found, tell)
    return Plan(checkpoint, batch, tuple(moves), tuple(forgotten), tuple(remarks))


def local(location: str) -> Path:
    """The path that a location names on this machine."""
    address = urlparse(location)
    if address.scheme == "":
        return Path(location).absolute()
    if address.scheme == "file":
        # Hadoop writes paths as they are, everything else encodes them.
        plain = Path("/" + location.removeprefix("file:").lstrip("/"))
        return plain if plain.exists() else Path(unquote(address.path))
    raise RollbackError(
        f"{location} is not on this machine.",
        f"This command moves files, and knows how to on local file systems only, not on "
        f"{address.scheme}.",
        "Copy the checkpoint (and the folder of a file sink) here, set the copy back, and copy it "
        "to its place again.",
    )


def verify_checkpoint(checkpoint: Path) -> None:
    missing = [name for name in ("offsets", "commits") if not (checkpoint / name).is_dir()]
    if not (checkpoint / "metadata").is_file():
        missing.append("metadata")
    if missing:
        raise RollbackError(
            f"{checkpoint} is not the checkpoint of a query.",
            f"There is no {' and no '.join(missing)} in it.",
            "Name the folder that is the query's checkpointLocation. Nothing was changed.",
        )


def verify_quiet(checkpoint: Path, seconds: float) -> None:
    """A running query writes now and then; one without input looks like none."""
    newest, when = checkpoint, 0.0
    for name in ("offsets", "commits", "sources", "state"):
        for path in (checkpoint / name).rglob("*"):
            try:
                changed = path.lstat().st_mtime
            except FileNotFoundError:  # it was listed, and deleted since then: by the query
                changed = time.time()
            if changed > when:
                newest, when = path, changed
    age = time.time() - when
    if age < seconds:
        raise RollbackError(
            "The query seems to be running.",
            f"{newest} was written {max(age, 0):.0f} seconds ago.",
            f"Stop the query and wait {seconds:.0f} seconds. If you know that it has stopped, add "
            "--quiet-seconds 0. Nothing was changed.",
        )


def _verify_batch(batch: int, offsets: BatchLog, commits: BatchLog) -> None:
    published = commits.numbers
    if batch not in published:
        there = f"{published[0]} to {published[-1]}" if published else "none"
        raise RollbackError(
            f"Batch {batch} is not in the checkpoint's log of commits.",
            f"There are: {there}. Older ones are deleted "
            "(spark.sql.streaming.minBatchesToRetain), newer ones were never published.",
            "Choose one of these. Nothing was changed.",
        )
    for needed in (batch, batch - 1):
        if needed >= 0 and needed not in offsets:
            raise RollbackError(
                f"The query cannot go on from batch {batch}.",
                f"Spark needs {offsets.path(needed)} for it, which is not there.",
                "Choose a later batch. Nothing was changed.",
            )


def _which_sink(batch: int) -> RollbackError:
    return RollbackError(
        "The query's sink is not known.",
        "A checkpoint does not say where its query writes, and a sink that has later batches has "
        "to be set back, too, or rows are lost or doubled.",
        "For a file sink (parquet, json, csv, orc, text) add --file-sink FOLDER. Any other sink "
        f"(foreachBatch, Kafka, console …) is given the rows of the batches after {batch} again: "
        "if it replaces what it has of them, or you have set it back yourself, add "
        "--sink-replaces-batches. Nothing was changed.",
    )


def _of_sources(
    checkpoint: Path, request: Request, offsets: BatchLog, remarks: list[str]
) -> list[Path]:
    then = read_offsets(offsets.path(request.batch))
    latest = read_offsets(offsets.path(offsets.numbers[-1]))
    found: list[Path] = []
    for name in latest.keys() | then.keys():
        folder = checkpoint / "sources" / name
        example = then.get(name) or latest.get(name)
        if example is None:
            continue  # it has never given a row
        kind = sources.kind_of(example, folder)
        if kind == "file":
            found += sources.files_to_move(
                folder, then.get(name), request.sources_can_be_read_again, remarks
            )
        elif kind == "kafka":
            remarks.append(
                f"Source {name} is Kafka's: the topics must still hold the rows since batch "
                f"{request.batch}."
            )
        elif kind == "unknown" and not request.sources_can_be_read_again:
            raise RollbackError(
                f"Source {name} of the query is of a kind that is not known here.",
                f"At the end of batch {request.batch} it was at {example[:80]}. Whether it gives "
                "the rows after that again is not known.",
                "If it does, and keeps nothing else in the checkpoint, add "
                "--sources-can-be-read-again. Nothing was changed.",
            )
    return sorted(found)


def _not_loadable(
    checkpoint: Path,
    batch: int,
    commits: BatchLog,
    found: list[str],
    tell: Callable[[str], None],
) -> RollbackError:
    more = f"\nand {len(found) - 3} stores more" if len(found) > 3 else ""
    earlier = [number for number in reversed(commits.numbers) if number < batch]
    whole = None
    for number in earlier[:EARLIER_BATCHES]:
        tell(f"It cannot be loaded. Checking the state at the end of batch {number} …")
        if not state.problems(checkpoint, number):
            whole = number
            break
    return RollbackError(
        f"The state at the end of batch {batch} cannot be loaded.",
        "\n".join(found[:3]) + more,
        (
            f"Use --to {whole}, which can be loaded. Nothing was changed."
            if whole is not None
            else "Choose an earlier batch, or restore the files. Nothing was changed."
        ),
    )
