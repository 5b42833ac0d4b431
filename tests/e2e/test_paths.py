"""A checkpoint is the same one however its path is written.

Problem: the ledger knows a checkpoint by its name; a reader that names it in another way (without a
scheme, with a slash at the end) would not wait for batches that are still on their way.
Answer: readers under all spellings, while the upload of the last batch is held up.
Invariant: each waits, and then sees the last batch (rule 5 of RFC 4).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.counting import Counting, happens
from support.faults import FileFaults

import tailrace

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "plain": str,
    "slash at the end": lambda path: f"{path}/",
    "double slash": lambda path: f"{path.parent}//{path.name}",
    "file:/": lambda path: f"file:{path}",
    "file:///": lambda path: f"file://{path}",
    "file:/// and a slash": lambda path: f"file://{path}/",
}


@pytest.mark.parametrize("written", SPELLINGS)
def test_readers_wait_for_what_is_pending(faults: FileFaults, tmp_path: Path, written: str) -> None:
    counting = Counting(tmp_path)
    query = counting.start(faults.session())
    counting.location = SPELLINGS[written](counting.checkpoint)
    readers = [faults.session() for _ in range(2)]

    def last_batch() -> int:
        (row,) = readers[1].read.format("state-metadata").load(counting.location).collect()
        return int(row["maxBatchId"])

    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        with ThreadPoolExecutor(2) as pool:
            with faults.hold() as await_held:
                counting.run_batch(query, "oak ash fir")
                await_held()
                state = pool.submit(counting.state, readers[0])
                last = pool.submit(last_batch)
                assert not happens(lambda: state.done() or last.done())
            assert state.result() == counting.expected
            assert last.result() == 1
    finally:
        query.stop()


def test_a_query_is_drained_by_any_name(faults: FileFaults, tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.location = f"{counting.checkpoint}/"
    query = counting.start(faults.session())
    try:
        with ThreadPoolExecutor(1) as pool:
            with faults.hold() as await_held:
                counting.run_batch(query, "oak elm")
                await_held()
                drained = pool.submit(tailrace.drain, faults.spark, query=query)
                assert not happens(drained.done)
            drained.result()
        assert counting.published == [0]
    finally:
        query.stop()
