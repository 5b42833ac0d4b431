"""Two queries on one checkpoint, in two processes: one fails clearly, the results stay right.

Spark's own log of offsets decides: of two writers of one entry exactly one may succeed. On a local
disk that promise is `LocalFileManager`'s, so it is tested here with two real processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from support import second_query
from support.counting import Counting
from support.faults import FileFaults
from support.processes import Program

PATIENCE_FILES = 60
WORDS = ["oak", "elm", "ash", "fir"]
# How Spark says it: found when writing an entry, found before writing it, found by the file system.
REFUSALS = ("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log", "concurrently")


def add_file(events: Path, number: int) -> list[str]:
    """One file of words, which appears as a whole."""
    words = [WORDS[(number * 7 + index * index) % len(WORDS)] for index in range(50 + number)]
    hidden = events / f".{number}.json"
    hidden.write_text("\n".join(json.dumps({"word": word}) for word in words))
    hidden.rename(events / f"{number}.json")
    return words


def totals(results: Path) -> Counter[str]:
    """The last count of every word, batch by batch."""
    latest: Counter[str] = Counter()
    for path in sorted(results.glob("*.txt"), key=lambda path: int(path.stem)):
        for line in path.read_text().splitlines():
            word, count = line.split()
            latest[word] = int(count)
    return latest


def test_one_of_two_queries_on_a_checkpoint_fails_clearly(
    spark: SparkSession, tmp_path: Path
) -> None:
    events, checkpoint, results = tmp_path / "events", tmp_path / "checkpoint", tmp_path / "results"
    events.mkdir()
    results.mkdir()
    words = add_file(events, 0)
    first = second_query.start_counting(spark, events, checkpoint, results)
    first.processAllAvailable()
    rival = subprocess.Popen(
        [
            sys.executable,
            second_query.__file__,
            *map(str, (events, checkpoint, results)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert rival.stdout is not None
        assert rival.stdout.readline().strip() == "ready"
        for number in range(1, PATIENCE_FILES):
            words += add_file(events, number)
            time.sleep(0.5)
            if not first.isActive or rival.poll() is not None:
                break
        (results / "stop").touch()
        said = rival.communicate()[0]
        errors = [str(first.exception())] if first.exception() else []
        errors += [said] if "failed: " in said else []
        assert len(errors) == 1, "two queries ran on one checkpoint, and not one of them failed"
        assert any(refusal in errors[0] for refusal in REFUSALS), errors
    finally:
        rival.kill()
        rival.wait()
        first.stop()
    # The next query finds a checkpoint that gives the right results.
    survivor = second_query.start_counting(spark, events, checkpoint, results)
    survivor.processAllAvailable()
    survivor.stop()
    assert totals(results) == Counter(words)


def test_latecomer_does_no_harm(faults: FileFaults, tmp_path: Path) -> None:
    """A second process starts while the first one's upload is slow: it finds a batch without a
    commit, as after a crash; but the first process has not crashed."""
    counting = Counting(tmp_path)
    session = faults.session()
    query = counting.start(session)
    try:
        for text in ("oak elm", "fir"):
            counting.await_published(counting.run_batch(query, text))
        with faults.hold() as await_held:
            counting.run_batch(query, "oak oak")
            await_held()
            counting.add("ash ash")
            counting.await_started(3)
            latecomer = Program("support.latecomer", tmp_path).__enter__()
            assert latecomer.expect("shows a batch")["number"] == 2
        with latecomer:
            counting.await_applied(query, 3)
            counting.await_published(counting.run_batch(query, "oak bay"))
            (tmp_path / "go on").touch()
            error = latecomer.expect("ended")["error"]
    finally:
        query.stop()
    assert any(refusal in error for refusal in REFUSALS), error
    assert counting.logged("offsets") == counting.published == [0, 1, 2, 3, 4]
    assert [len(counting.packs(version)) for version in range(1, 6)] == [1] * 5
    counting.add("elm elm")
    assert counting.problems_after(session) == []
    assert counting.calls == [0, 1, 2, 3, 4, 5]
