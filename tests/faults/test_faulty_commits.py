"""A checkpoint file system that fails, tears, lies or dawdles under an asynchronous commit.

Problem: state is written when its batch is long over; an error then has no task that it could fail,
and a file may be there, half there or not there whatever the file system said.
Answer: a scripted file system below everything (tests/jvm/ScriptedFileSystem.scala), as the local
disk and as a remote one, with errors at every operation of the commit path.
Invariant: an error that passes costs retries and nothing else; one that stays fails the query with
problem, cause, remedy and the file's name, and the restart after the repair is right.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from support.counting import Counting, eventually
from support.faults import PACK, FileFaults

COMMITS = r"/commits/\d+$"
COMMITS_TEMPORARY = r"/commits/\.\d+\."
OFFSETS = r"/offsets/\d+$"
ANY = r"/(commits|offsets|state)/"


def retries(query: StreamingQuery) -> list[int]:
    return [
        operator["customMetrics"]["tailraceRetries"]
        for report in query.recentProgress
        for operator in report["stateOperators"]
    ]


def failure(query: StreamingQuery) -> str:
    """Waits until the query has failed; sooner than retries would last by default."""
    return str(eventually(lambda: query.exception(), "the query to fail", seconds=30))


def assert_clear(text: str, name: str) -> None:
    assert name in text
    assert "Cause:" in text
    assert "Remedy:" in text


# ---- errors that pass


@pytest.mark.parametrize(
    ("scheme", "operation", "pattern", "counted"),
    [
        ("file", "create", PACK, True),
        ("file", "close", PACK, True),
        # Prepared while the pack is written: whether the next batch reports it is a race.
        ("file", "create", COMMITS_TEMPORARY, False),
        ("scripted", "create", PACK, True),
        ("scripted", "rename", COMMITS, True),
        ("scripted", "rename", OFFSETS, True),
    ],
)
def test_errors_that_pass_are_outlived(
    faults: FileFaults, tmp_path: Path, scheme: str, operation: str, pattern: str, counted: bool
) -> None:
    counting = Counting(tmp_path, scheme=scheme)
    query = counting.start(faults.session())
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.fail(operation, pattern, times=3)
        counting.await_published(counting.run_batch(query, "oak fir"))
        counting.run_batch(query, "elm ash")
        seen = retries(query)
        failed = [line for line in faults.record if line.startswith("failed ")]
    finally:
        query.stop()
    assert len(failed) == 3
    assert sum(seen) == 3 or not counted, seen
    counting.assert_right()
    assert counting.calls == [0, 1, 2]


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("rename", COMMITS), ("rename", OFFSETS), ("close", PACK), ("close", COMMITS_TEMPORARY)],
)
def test_error_though_it_was_done(
    faults: FileFaults, tmp_path: Path, operation: str, pattern: str
) -> None:
    """A rename, or the end of a write, whose answer was lost: it is found done, or done again."""
    counting = Counting(tmp_path, scheme="scripted")
    query = counting.start(faults.session())
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.fail_late(operation, pattern, times=1)
        counting.await_published(counting.run_batch(query, "oak fir"))
        counting.run_batch(query, "elm ash")
        assert [line for line in faults.record if line.startswith("failed ")]
    finally:
        query.stop()
    counting.assert_right()
    assert counting.calls == [0, 1, 2]


def test_write_that_is_cut_short(faults: FileFaults, tmp_path: Path) -> None:
    """A pack that lost its connection twice in the middle is written again, whole."""
    counting = Counting(tmp_path)
    session = faults.session()
    query = counting.start(session)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.cut(PACK, 100, times=2)
        counting.await_published(counting.run_batch(query, "oak fir"))
        assert counting.packs(2)[0].stat().st_size > 100
        assert counting.state(session) == counting.expected
    finally:
        query.stop()
    counting.add("elm")
    assert counting.problems_after(session) == []


@pytest.mark.parametrize("scheme", ["file", "scripted"])
def test_slow_file_system(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    counting = Counting(tmp_path, scheme=scheme)
    session = faults.session()
    for operation in ("create", "close", "rename"):
        faults.delay(operation, ANY, 60)
    for text in ("oak elm", "oak fir", "elm elm"):
        counting.add(text)
    assert counting.problems_after(session) == []
    assert counting.state(session) == counting.expected
    assert counting.published == [0, 1, 2]


# ---- errors that stay


@pytest.mark.parametrize("scheme", ["file", "scripted"])
def test_state_that_cannot_be_written(faults: FileFaults, tmp_path: Path, scheme: str) -> None:
    counting = Counting(tmp_path, scheme=scheme)
    session = faults.session(retryTimeout="1s")
    query = counting.start(session)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.fail("create", PACK)
        counting.run_batch(query, "oak fir")
        counting.add("elm")
        text = failure(query)
    finally:
        query.stop()
    assert_clear(text, f"{counting.checkpoint}/state/tailrace/2-")
    assert "scripted: no create" in text
    assert counting.published == [0]
    assert 2 not in counting.shown, "output of a batch that stands on nothing"
    # While it is out of order, every restart says the same.
    query = counting.start(session)
    counting.add("fir")
    assert_clear(failure(query), f"{counting.checkpoint}/state/tailrace/2-")
    faults.clear()
    assert counting.problems_after(session) == []
    assert counting.state(session) == counting.expected


# ---- half-written files after a crash


@pytest.mark.parametrize("name", ["the same", "another run's"])
def test_half_written_pack_after_a_crash(faults: FileFaults, tmp_path: Path, name: str) -> None:
    """A pack has its final name from the first byte on; no reader takes it for a whole one."""
    counting = Counting(tmp_path)
    session = faults.session()
    query = counting.start(session)
    try:
        counting.await_published(counting.run_batch(query, "oak elm"))
        faults.cut(PACK, 100)
        counting.run_batch(query, "oak fir")
        eventually(lambda: counting.packs(2), "the half-written pack")
        left = counting.crashed()
    finally:
        query.stop()
        faults.clear()
    (torn,) = left.packs(2)
    if name == "another run's":
        torn = torn.rename(torn.with_name(f"2-{0:016x}.pack.tr"))
    before = torn.read_bytes()
    assert len(before) <= 100
    assert left.published == [0]
    left.add("elm ash")
    assert left.problems_after(session) == []
    assert left.state(session) == left.expected
    assert len(left.packs(2)) == 1
    assert left.packs(2)[0].read_bytes() != before


# ---- order


def test_order_of_all_that_is_seen(faults: FileFaults, tmp_path: Path) -> None:
    """Pack N closed, then commits/N, then the output of N+1, however slow each of them is."""
    counting = Counting(tmp_path, scheme="scripted")

    def noting(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        faults.note(f"shown {number}")
        counting.keep(batch.sparkSession.createDataFrame(rows, batch.schema), number)

    for text in ("oak elm", "oak fir", "elm elm", "ash oak"):
        counting.add(text)
    faults.delay("close", PACK, 400)
    faults.delay("rename", COMMITS, 200)
    assert counting.problems_after(faults.session(), sink=noting) == []
    counting.await_published(3)
    eventually(lambda: "/commits/3" in faults.record[-1], "the last entry of the record")
    record = faults.record

    def at(operation: str, part: str) -> int:
        found = [i for i, line in enumerate(record) if line.startswith(operation) and part in line]
        assert len(found) == 1, f"{operation} {part}: {found}"
        return found[0]

    for number in range(4):
        durable = at("close ", f"/state/tailrace/{number + 1}-")
        published = at("rename ", f"/commits/{number}")
        assert at("shown", f" {number}") < published
        assert durable < published
        if number < 3:
            assert at("rename ", f"/offsets/{number + 1}") < at("shown", f" {number + 1}")
            assert published < at("shown", f" {number + 1}")
