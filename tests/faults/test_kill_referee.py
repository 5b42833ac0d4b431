"""The judge of the kill tests sees every kind of fault.

A comparison that cannot fail is worthless: a finished run is damaged in each way in which a fault
of the commit protocol would show, and each is reported.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import chaos_query
from support.chaos import Chain, Setting
from support.chaos_input import file_name, prepare
from support.chaos_query import CONFS, FOLDERS, Failpoints, Query, logged
from support.chaos_referee import Referee

SEED = 20
FILES = 5


@dataclass
class Court:
    """Runs a query here, undisturbed but for the test's own damage, and has it judged."""

    spark: SparkSession
    referee: Referee
    folder: Path

    def chain(self, name: str, kind: str, sink: str) -> Chain:
        chain = Chain(self.folder / name, Setting(kind, sink), SEED, ())
        chain.files = FILES
        return chain

    def prepare(self, chain: Chain) -> None:
        prepare(chain.folder, chain.setting.kind, SEED, FILES)

    def run(self, chain: Chain) -> None:
        paths = (chain.folder / name for name in FOLDERS)
        query = Query(chain.setting.kind, chain.setting.sink, "files", *paths)
        chaos_query.run(self.spark, query, Failpoints(""))

    def finished(self, sink: str, copy: str) -> Chain:
        """A window query that came to its end: run once, then copied."""
        original = self.chain(f"finished-{sink}", "window", sink)
        if not original.folder.exists():
            self.prepare(original)
            self.run(original)
        chain = self.chain(copy, "window", sink)
        shutil.copytree(original.folder, chain.folder)
        for log in chain.folder.glob("output/_spark_metadata/*"):  # it holds whole paths
            text = log.read_text("utf-8")
            log.write_text(text.replace(str(original.folder), str(chain.folder)), "utf-8")
        return chain

    def planned_anew(self, sink: str) -> Chain:
        """A batch whose output was shown loses its offsets, and is planned again with more files.

        1. Run on the first two files. 2. Forget the last batch. 3. Run on all files.
        """
        chain = self.chain(f"anew-{sink}", "unique", sink)
        self.prepare(chain)
        # 1.
        later = chain.folder / "later"
        shutil.copytree(chain.folder / "input", later / "input")
        shutil.copytree(chain.folder / "closing", later / "closing")
        for number in range(2, FILES):
            (chain.folder / "input" / "events" / file_name(number)).unlink()
        (chain.folder / "closing" / "events" / file_name(FILES)).unlink()
        self.run(chain)
        # 2.
        checkpoint = chain.folder / "checkpoint"
        last = logged(checkpoint / "commits")[-1]
        for log in ("offsets", "commits"):
            (checkpoint / log / str(last)).unlink()
        # With the state of the batch still there, the start would be refused.
        for pack in (checkpoint / "state" / "tailrace").glob(f"{last + 1}-*.pack.tr"):
            pack.unlink()
        # 3.
        shutil.copytree(later, chain.folder, dirs_exist_ok=True)
        self.run(chain)
        return chain


@pytest.fixture(scope="module")
def court(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Court:
    session = spark.newSession()
    for key, value in CONFS.items():
        if key.startswith("spark.sql."):
            session.conf.set(key, value)
    folder = tmp_path_factory.mktemp("court")
    return Court(session, Referee(session, folder / "undisturbed"), folder)


def double_a_batch(chain: Chain) -> None:
    output = chain.folder / "output"
    full = next(path for path in output.iterdir() if json.loads(path.read_text()))
    shutil.copy(full, output / "99")


def lose_a_batch(chain: Chain) -> None:
    output = chain.folder / "output"
    next(path for path in output.iterdir() if json.loads(path.read_text())).unlink()


def forget_what_the_sink_logged(chain: Chain) -> None:
    log = chain.folder / "output" / "_spark_metadata"
    full = max(log.iterdir(), key=lambda path: path.stat().st_size)
    full.write_text("v1")


def unpublish_the_last_batch(chain: Chain) -> None:
    commits = chain.folder / "checkpoint" / "commits"
    (commits / str(logged(commits)[-1])).unlink()


def lose_a_commit_in_between(chain: Chain) -> None:
    (chain.folder / "checkpoint" / "commits" / "1").unlink()


@pytest.mark.parametrize("sink", ["foreach", "file"])
def test_undisturbed_run_is_right(court: Court, sink: str) -> None:
    assert court.referee.problems(court.finished(sink, f"right-{sink}")) == []


@pytest.mark.parametrize(
    ("sink", "damage", "told"),
    [
        ("foreach", double_a_batch, "output: * rows too many"),
        ("foreach", lose_a_batch, "output: * rows missing"),
        ("file", forget_what_the_sink_logged, "output: * rows missing"),
        ("foreach", unpublish_the_last_batch, "those published are"),
        ("file", lose_a_commit_in_between, "those published are"),
    ],
)
def test_damage_is_told(
    court: Court, sink: str, damage: Callable[[Chain], None], told: str
) -> None:
    chain = court.finished(sink, f"{sink}-{damage.__name__}")
    damage(chain)
    problems = court.referee.problems(chain)
    before, _, after = told.rpartition("*")
    assert any(problem.startswith(before) and after in problem for problem in problems), problems


def test_state_that_differs_is_told(court: Court) -> None:
    """The closing rows stay in the state and show in no output."""
    chain = court.chain("state", "window", "foreach")
    court.prepare(chain)
    path = chain.folder / "closing" / "events" / file_name(FILES)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["amount"] += 1
    path.write_text("\n".join(map(json.dumps, rows)))
    court.run(chain)
    problems = court.referee.problems(chain)
    assert [problem.split(":")[0] for problem in problems] == ["state", "state"], problems


def test_batch_that_was_shown_and_is_planned_anew_is_told(court: Court) -> None:
    """A sink that replaces keeps the new rows, one that skips the old ones: both are wrong."""
    replaced = court.referee.problems(court.planned_anew("foreach"))
    assert any("with other rows" in problem for problem in replaced), replaced
    skipped = court.referee.problems(court.planned_anew("file"))
    assert any("rows missing" in problem for problem in skipped), skipped
