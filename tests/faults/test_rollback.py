"""`tailrace rollback`: no row is lost, none is doubled; a query that cannot be set back is refused.

Problem: Spark's logs of offsets, commits, file sources and file sinks have to agree with the state.
Answer: real queries from files to files, damaged, set back with the command that the error names,
and run on; their output is compared with that of an undisturbed run.
Invariant: a refusal changes nothing on disk.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.counting import Counting, new_session
from support.damage import contents_of
from support.rolling import Rolling, joined, windowed

from tailrace import rollback
from tailrace.cli import main
from tailrace.errors import RollbackError

Query = Callable[[dict[str, DataFrame]], DataFrame]
NOW = ("--quiet-seconds", "0")
SYNCHRONOUS = {"spark.sql.streaming.stateStore.tailrace.commit": "sync"}
NAMED = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}


def command_in(error: BaseException) -> list[str]:
    """The command line in an error's remedy."""
    found = re.search(r"run: tailrace (rollback .+ --to \d+) ", str(error))
    assert found is not None, str(error)
    return shlex.split(found[1])


def after_run(
    spark: SparkSession, folder: Path, steps: int, build: Query = windowed, **options: Any
) -> Rolling:
    """A query that has run over so many steps of input, a batch each."""
    query = Rolling(folder, build, **options)
    query.add(steps)
    query.run(spark)
    return query


def set_back(query: Rolling, batch: int) -> list[str]:
    """The command that sets the query back to the end of this batch."""
    sink = ["--file-sink", str(query.output)]
    return ["rollback", str(query.checkpoint), "--to", str(batch), *sink, *NOW]


def plan_of(query: Rolling, batch: int) -> rollback.Plan:
    request = rollback.Request(
        str(query.checkpoint), batch, file_sink=str(query.output), quiet_seconds=0
    )
    return rollback.plan(request)


def assert_like_undisturbed(spark: SparkSession, query: Rolling) -> None:
    other = query.undisturbed()
    other.run(spark)
    expected = other.rows(spark)
    assert sum(expected.values()) > 10, "an empty output compares nothing"
    assert query.rows(spark) == expected


def last_output(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


CASES = {
    "windows": (windowed, ("left",), {}),
    "windows_sync": (windowed, ("left",), SYNCHRONOUS),
    "windows_checkpoint_ids": (windowed, ("left",), NAMED),
    "join": (joined, ("left", "right"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_command_in_the_error_sets_the_query_right(
    spark: SparkSession, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    build, sources, confs = CASES[case]
    query = after_run(spark, tmp_path, 6, build, sources=sources, confs=confs)
    newest = query.batches()[-1]
    for path in query.state_files(newest + 1):
        path.write_bytes(path.read_bytes()[:60])
    query.add(4)
    with pytest.raises(StreamingQueryException) as caught:
        query.run(spark)
    command = command_in(caught.value)
    assert command[1:] == [query.checkpoint.as_uri().replace("///", "/"), "--to", str(newest - 1)]
    assert main([*command, "--file-sink", str(query.output), *NOW]) == 0, last_output(capsys)
    assert query.batches()[-1] == newest - 1
    query.run(spark)
    assert_like_undisturbed(spark, query)


@pytest.mark.parametrize("batch", range(7))
def test_every_batch_can_be_set_back_to(
    spark: SparkSession, tmp_path: Path, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, on and behind the compactions of both logs, which are at 2 and 5."""
    query = after_run(spark, tmp_path, 7)
    assert {path.name for path in (query.checkpoint / "sources" / "0").glob("*.compact")} >= {
        "2.compact",
        "5.compact",
    }
    before = contents_of(query.checkpoint)
    assert main([*set_back(query, batch), "--dry-run"]) == 0
    told = last_output(capsys)
    assert f"would move {query.checkpoint}/commits/{batch + 1}" in told
    assert contents_of(query.checkpoint) == before
    assert main(set_back(query, batch)) == 0, last_output(capsys)
    # No file is lost: each is where it was, or in the folder.
    (folder,) = query.checkpoint.glob(".rolled-back-*")
    moved = contents_of(folder)
    manifest = json.loads(moved.pop("manifest.json"))
    assert {move["to"] for move in manifest["moved"]} == set(moved)
    left = {
        name: data
        for name, data in contents_of(query.checkpoint).items()
        if not name.startswith(".rolled-back-")
    }
    in_checkpoint = {name: data for name, data in moved.items() if "file-sink" not in name}
    assert {**left, **in_checkpoint} == before
    query.add(2)
    query.run(spark)
    assert_like_undisturbed(spark, query)


def test_set_back_twice(spark: SparkSession, tmp_path: Path) -> None:
    query = after_run(spark, tmp_path, 6)
    for batch in (4, 2):
        assert main(set_back(query, batch)) == 0
    query.run(spark)
    assert main(set_back(query, 2)) == 0
    query.run(spark)
    assert_like_undisturbed(spark, query)


def test_a_sink_that_replaces_batches(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counting = Counting(tmp_path, checkpoint=tmp_path / "with space")
    for text in ("a b", "b c", "c d a", "a"):
        counting.add(text)
    session = new_session(spark)
    assert counting.problems_after(session) == []
    for pack in counting.packs(4):
        pack.write_bytes(b"")
    counting.add("e a")
    (problem,) = counting.problems_after(session)
    command = command_in(Exception(problem))
    assert command[-1] == "2"
    assert main([*command, *NOW]) == 1
    assert "--sink-replaces-batches" in last_output(capsys)
    assert main([*command, "--sink-replaces-batches", *NOW]) == 0
    assert "will be given the rows of the batches after 2 again" in last_output(capsys)
    assert counting.problems_after(session) == []
    assert counting.shown.keys() == {0, 1, 2, 3, 4}


def test_an_interrupted_rollback_does_no_harm_and_can_be_finished(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = after_run(spark, tmp_path, 5)
    plan = plan_of(query, 2)
    half = len(plan.moves) // 2
    ghost = tmp_path / "gone"
    moves = (*plan.moves[:half], rollback.Move(ghost, "gone"), *plan.moves[half:])
    with pytest.raises(RollbackError, match="gone is gone"):
        rollback.apply(dataclasses.replace(plan, moves=moves))
    # Spark refuses half a rollback, and so does another one.
    with pytest.raises(Exception, match="STREAMING_CHECKPOINT_MISSING_METADATA_FILE"):
        query.run(spark)
    assert main(set_back(query, 1)) == 1
    assert "A rollback to batch 2 was interrupted" in last_output(capsys)
    ghost.write_text("it is back")
    assert main(set_back(query, 2)) == 0, last_output(capsys)
    assert rollback.interrupted(query.checkpoint) is None
    query.run(spark)
    assert_like_undisturbed(spark, query)


def test_a_batch_that_is_published_meanwhile_is_noticed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = after_run(spark, tmp_path, 4)
    plan = plan_of(query, 2)
    late = query.checkpoint / "commits" / "77"
    late.write_text("v1\n{}")
    with pytest.raises(RollbackError, match="The query is running"):
        rollback.apply(plan)
    with pytest.raises(Exception, match="STREAMING_CHECKPOINT_MISSING_METADATA_FILE"):
        query.run(spark)
    late.unlink()
    assert main(set_back(query, 2)) == 0, last_output(capsys)
    query.add(4)
    query.run(spark)
    assert_like_undisturbed(spark, query)


# ---- refusals


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rolling:
    """A query that has run; every test makes a copy."""
    return after_run(spark, tmp_path_factory.mktemp("finished"), 5)


@pytest.fixture
def copy(finished: Rolling, tmp_path: Path) -> Rolling:
    shutil.copytree(finished.folder, tmp_path / "copy")
    return Rolling(tmp_path / "copy", windowed)


def refused(query: Rolling, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the command, asserts that it refuses and changes nothing; returns its output."""
    before = contents_of(query.folder)
    command = ["rollback", str(query.checkpoint), *arguments]
    if "--file-sink" not in arguments:
        command += ["--file-sink", str(query.output)]
    if "--quiet-seconds" not in arguments:
        command += NOW
    assert main(command) == 1
    assert contents_of(query.folder) == before
    told = last_output(capsys)
    assert "cause:" in told
    assert "remedy:" in told
    return told


def test_a_batch_that_was_not_published(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Batch 77 is not in the checkpoint's log" in refused(copy, capsys, "--to", "77")


def test_a_query_that_seems_to_run(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.checkpoint / "commits" / "0").touch()
    told = refused(copy, capsys, "--to", "2", "--quiet-seconds", "30")
    assert "seems to be running" in told


def test_state_that_cannot_be_loaded(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    """And the newest batch before it whose state can be is named."""
    for path in copy.state_files(4):
        path.write_bytes(path.read_bytes()[:-40])
    told = refused(copy, capsys, "--to", "3")
    assert copy.state_files(4)[0].name in told
    assert "Use --to 2, which can be loaded" in told


def test_state_of_another_store(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.checkpoint / "state" / "0" / "0" / "3.delta").write_bytes(b"")
    assert "is not tailrace's" in refused(copy, capsys, "--to", "2")


def test_a_source_that_is_not_known(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (copy.checkpoint / "offsets").glob("[0-9]*"):
        version, metadata, _ = path.read_text().splitlines()
        path.write_text(f"{version}\n{metadata}\n17")
    assert "of a kind that is not known" in refused(copy, capsys, "--to", "2")


def test_input_that_is_gone(
    copy: Rolling, finished: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = finished.events / "left" / "0004.json"
    hidden.rename(finished.folder / "away")
    try:
        told = refused(copy, capsys, "--to", "2")
    finally:
        (finished.folder / "away").rename(hidden)
    assert "0004.json is gone" in told
    assert "cleanSource" in told


def test_a_source_log_that_no_longer_holds_the_batch(
    copy: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy.checkpoint / "sources" / "0" / "0").unlink()
    assert "no longer holds" in refused(copy, capsys, "--to", "1")


def test_a_sink_log_that_no_longer_holds_the_batch(
    copy: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy.output / "_spark_metadata" / "1").unlink()
    assert "no longer holds" in refused(copy, capsys, "--to", "1")


def test_a_folder_that_is_no_sink(
    copy: Rolling, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(copy, capsys, "--to", "1", "--file-sink", str(tmp_path))
    assert "is not the folder of a file sink" in told


def test_a_checkpoint_that_is_none(copy: Rolling, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.checkpoint / "metadata").unlink()
    assert "is not the checkpoint of a query" in refused(copy, capsys, "--to", "1")


def test_a_checkpoint_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", "s3a://bucket/checkpoint", "--to", "1"]) == 1
    assert "is not on this machine" in last_output(capsys)
