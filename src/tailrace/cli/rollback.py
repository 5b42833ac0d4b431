"""Set a stopped query back to the end of an earlier batch."""

from __future__ import annotations

import argparse
import math

from tailrace import rollback
from tailrace.errors import RollbackError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the query's checkpointLocation")
    parser.add_argument(
        "--to", type=_batch, required=True, metavar="BATCH", help="the last batch that is to count"
    )
    of_sink = parser.add_mutually_exclusive_group()
    of_sink.add_argument(
        "--file-sink", metavar="FOLDER", help="where the query writes files; its log is set back"
    )
    of_sink.add_argument(
        "--sink-replaces-batches",
        action="store_true",
        help="the sink is no file sink, and replaces what it has of a batch that it is given again",
    )
    parser.add_argument(
        "--sources-can-be-read-again",
        action="store_true",
        help="you have seen that the sources still hold what the query has read since the batch",
    )
    parser.add_argument(
        "--quiet-seconds",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="a checkpoint written to within this time is taken for one in use (default: 30)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, list what would be moved, stop"
    )


def _batch(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a batch")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _finish(begun: rollback.Interrupted, arguments: argparse.Namespace) -> int:
    if begun.batch != arguments.to or arguments.dry_run:
        raise RollbackError(
            f"A rollback to batch {begun.batch} was interrupted.",
            f"{begun.folder} has its manifest. The query does not start before it is finished.",
            f"Finish it first: run the command with --to {begun.batch}, without --dry-run.",
        )
    begun.finish()
    print(f"A rollback that was interrupted is finished. What was moved is in {begun.folder}.")
    return 0


def run(arguments: argparse.Namespace) -> int:
    checkpoint = rollback.local(arguments.checkpoint)
    begun = rollback.interrupted(checkpoint)
    if begun is not None:
        return _finish(begun, arguments)
    request = rollback.Request(
        checkpoint=arguments.checkpoint,
        batch=arguments.to,
        file_sink=arguments.file_sink,
        sink_replaces_batches=arguments.sink_replaces_batches,
        sources_can_be_read_again=arguments.sources_can_be_read_again,
        quiet_seconds=arguments.quiet_seconds,
    )
    plan = rollback.plan(request, tell=lambda text: print(text, flush=True))
    if not plan.moves:
        print(f"Batch {plan.batch} is the last one already: there is nothing to move.")
        return 0
    if arguments.dry_run:
        for move in plan.moves:
            print(f"would move {move.source}")
        print(f"{len(plan.moves)} files would be moved. Nothing was changed.")
    else:
        folder = rollback.apply(plan)
        print(f"{len(plan.moves)} files were moved to {folder}.")
        print(f"The query goes on with batch {plan.batch + 1} when it is started.")
    for remark in plan.remarks:
        print(f"- {remark}")
    return 0
