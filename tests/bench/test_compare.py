"""Two checkouts in turns: the same work on both sides, and differences are reported."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.bench_results import made

import tailrace
from tailrace.bench import compare, contest, result, side
from tailrace.bench.plan import job
from tailrace.bench.report.text import conclusion, markdown
from tailrace.bench.screen import Screen
from tailrace.bench.stores import TAILRACE, BenchError
from tailrace.bench.workloads import WORKLOADS
from tailrace.cli import bench, main
from tailrace.cli._folder import PREFIX

ROOT = Path(__file__).resolve().parents[2]
SIZES = ["--rows", "200", "--batches", "4", "--warmup", "1", "--rounds", "2", "--memory", "1g",
         "--partitions", "1", "--cores", "1", "--remote", "rtt=1ms"]  # fmt: skip


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.checked(parser.parse_args(["compare", *arguments]))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second checkout with the same sources, and its engine already built."""
    jar = tailrace.jar()
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("src", "engine/src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "build" / "engine").mkdir(parents=True)
    shutil.copy2(jar, folder / "build" / "engine" / jar.name)
    return folder


def test_two_checkouts_that_are_the_same_do_the_same_in_turns(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, temporary = tmp_path / "result.json", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # of the sides
    before = ["--before", str(other), "--out", str(out)]
    assert main(["bench", "compare", "update,remote", *before, *SIZES]) == 0
    found = result.read(out)
    assert [run["workload"] for run in found["runs"]] == ["update", "update"]
    assert [run["parameters"] for run in found["runs"]] == [{}, {"checkpoint": "remote checkpoint"}]
    for run in found["runs"]:
        assert run["results"] | {"batches": 5, "agree": True, "checked": True} == run["results"]
        turns = sorted(
            (row["order"], name, row["round"])
            for name, store in run["stores"].items()
            for row in store["batches"]
        )
        b, a = "tailrace-before", "tailrace"
        assert [(name, number) for _, name, number in turns] == [
            (a, 0), (b, 0), (b, 0), (a, 0), (a, 1), (b, 1), (b, 1), (a, 1),
        ]  # fmt: skip
        ratio = run["ratios"]["before"]["stores"]["tailrace"]
        assert ratio["min"] <= ratio["max"]
        assert ratio["p99_min"] <= ratio["p99_max"]
        assert len(ratio["rounds"]["values"]) == 2
        assert all(row["line"]["rename"] > 0 for row in run["stores"][a]["batches"])
    settings = found["settings"]
    assert settings["engine_before"] == settings["engine_after"] == found["environment"]["engine"]
    assert "before / now" in capsys.readouterr().out
    assert not list(temporary.glob(f"{PREFIX}*"))
    assert main(["report", str(out)]) == 0
    assert str(tmp_path) not in out.read_text("utf-8"), "no path in a result"


@pytest.mark.long
def test_a_stopped_comparison_keeps_its_batches_and_leaves_no_files(
    other: Path, tmp_path: Path
) -> None:
    out, temporary = tmp_path / "result.json", tmp_path / "temporary"
    temporary.mkdir()
    code = "import sys; from tailrace.cli import main; sys.exit(main(sys.argv[1:]))"
    sizes = [*SIZES, "--batches", "100000", "--warmup", "0"]
    command = ["bench", "compare", "update", "--before", str(other), "--out", str(out), *sizes]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], env={**os.environ, "TMPDIR": str(temporary)},
        text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "/200000 batches" in line and not line.strip().startswith("1/"):
                break
        process.terminate()
        _, told = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, told
    found = result.read(out)
    assert found["interrupted"] is True
    assert found["runs"][0]["stores"]["tailrace-before"]["batches"]
    assert "Traceback" not in told
    assert not list(temporary.glob(f"{PREFIX}*"))


def test_the_settings_of_a_side_are_those_of_its_checkout(other: Path) -> None:
    jar = Path(compare.confs_of(other)["spark.jars"])
    assert other in jar.parents
    assert compare.confs_of(jar)["spark.jars"] == str(jar)
    assert tailrace.confs()["spark.jars"] != str(jar)
    init = other / "src" / "tailrace" / "_version.py"
    kept = init.read_text()
    init.write_text(kept.replace(tailrace.__version__, "0.0.1"))
    try:
        with pytest.raises(BenchError, match=r"Its tailrace is 0\.0\.1"):
            compare.confs_of(other)
    finally:
        init.write_text(kept)


def test_a_side_that_dies_is_told(tmp_path: Path) -> None:
    arguments = parsed("update", "--before", str(tmp_path), *SIZES)
    one = side.Side(TAILRACE, tailrace.confs(), arguments)
    try:
        process: Any = one._process
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(BenchError, match="has ended") as caught:
            one.ask("environment")
        assert "-9" in caught.value.cause
    finally:
        one.close()


class Dying:
    """A side that answers for a while."""

    def __init__(self, store: Any, answers: int) -> None:
        self.store = store
        self.answers = answers

    def ask(self, command: str, *values: Any) -> Any:
        self.answers -= 1
        if self.answers < 0:
            raise BenchError("dead", "of the test", "none")
        return {"rows": 1, "seconds": 1.0, "round": values[1]} if command == "batch" else {}


def test_what_was_measured_before_a_side_died_is_kept() -> None:
    from tailrace.bench import runner

    ((made, plan),) = compare.contests(parsed("update", "--before", ".", *SIZES))
    outcome = runner.Outcome(made)
    sides: Any = [Dying(store, 5) for store in plan.stores]
    with pytest.raises(BenchError):
        contest.one(sides, 0, 0, plan, outcome, contest.How(), Screen(1), threading.Event())
    assert {name: len(rows) for name, rows in outcome.rows.items()} == {
        "tailrace-before": 3,
        "tailrace": 3,
    }


def test_the_usual_workloads_are_those_of_the_claim() -> None:
    found = compare.contests(parsed("--before", "."))
    names = [made.label for made, _ in found]
    assert names == ["update", "window-append", "sessions", "dedup", "join",
                     "update (remote checkpoint)"]  # fmt: skip
    assert [plan.remote is not None for _, plan in found] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "There is nothing to compare with."),
        (["--before", "/no/such/folder"], "There is nothing to compare with at"),
        (["--before", str(ROOT / "README.md")], "There is nothing to compare with at"),
        (["q55", "--before", "."], "There is no workload 'q55'."),
        (["--before", ".", "--stores", "hdfs"], "--stores has no meaning in compare."),
        (["--before", ".", "--baseline", "zstream"], "--baseline has no meaning in compare."),
        (["--before", ".", "--cores", "0"], "--cores cannot be 0."),
    ],
)
def test_bad_input_is_told_before_a_process_starts(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.setattr(contest, "Side", lambda *_: pytest.fail("a process would have started"))
    assert main(["bench", "compare", *arguments]) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert "remedy:" in told


def test_faster_slower_and_the_same_are_told_apart() -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000), names=("tailrace-before", "tailrace"))
    assert "p50 faster than before, p99 faster than before (batch time, before / now: 2.00x" in (
        conclusion(found)
    )
    assert "| 2.00x" in markdown([found])
    slow = made(job(WORKLOADS["update"], {}, rows=1000), names=("tailrace", "tailrace-before"))
    assert "p50 SLOWER THAN BEFORE, p99 SLOWER THAN BEFORE" in conclusion(slow)
    same = json.loads(json.dumps(found))
    ratio = same["runs"][0]["ratios"]["before"]["stores"]["tailrace"]
    ratio |= {"median": 0.97, "min": 0.9, "max": 0.99, "stable": True}
    ratio |= {"p99": 0.8, "p99_min": 0.7, "p99_max": 0.9}
    assert "p50 as before within 5%, p99 SLOWER THAN BEFORE" in conclusion(same)
    ratio |= {"p99": 0.9, "p99_min": 0.8, "p99_max": 1.01}
    assert "p99 as before within the spread of the run" in conclusion(same)
