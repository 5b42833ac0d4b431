"""Sweeps, the timeline and the soak: what they run, and that their verdicts follow from it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.bench_results import ENVIRONMENT, batch

from tailrace.bench import contest, findings, prefetch, result, soak, targets, timeline
from tailrace.bench.events import changed
from tailrace.bench.plan import Plan
from tailrace.bench.rivals import KEYED, RIVALS
from tailrace.bench.runner import Outcome
from tailrace.bench.workloads.check import check, expected
from tailrace.cli import bench, main

SMALL = ["--rows", "1000", "--warmup", "1", "--memory", "1g", "--partitions", "1",
         "--cores", "1"]  # fmt: skip


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.checked(parser.parse_args(["prefetch", *arguments]))


def written(tmp_path: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """The result of a run, and its page."""
    out = tmp_path / "result.json"
    assert main(["bench", "prefetch", *arguments, *SMALL, "--out", str(out)]) == 0
    assert str(tmp_path) not in out.read_text("utf-8"), "no path in a result"
    assert main(["report", str(out)]) == 0
    return result.read(out), (tmp_path / "result" / "index.html").read_text("utf-8")


def swept(name: str, times: dict[str, dict[int, float]]) -> dict[str, Any]:
    """A result of a sweep with these seconds per batch, by contestant and value."""
    found = prefetch.contests(parsed("--sweep", name))
    outcomes = []
    for job, _ in found:
        outcome = Outcome(job)
        value = next(iter(job.parameters.values()))
        for store, each in times.items():
            outcome.rows[store] = [batch(n, n // 2, each[value], False) for n in range(4)]
        outcomes.append(outcome)
    jobs = tuple(job for job, _ in found)
    plan = Plan(jobs, RIVALS, batches=4, rounds=2, suite=f"prefetch-{name}")
    return result.assemble(plan, dict(ENVIRONMENT), outcomes, interrupted=False)


def test_a_sweep_has_a_run_for_each_value() -> None:
    skews = [job.events for job, _ in prefetch.contests(parsed("--sweep", "skew"))]
    assert [each.hot_auction_share for each in skews] == [0, 0.25, 0.5, 0.75, 1]
    sizes = prefetch.contests(parsed("--sweep", "cache"))
    assert [job.label for job, _ in sizes] == [
        f"{query} ({size} MB of memory)" for query in ("q13-state", "q20") for size in (4, 8, 16)
    ]
    thresholds = prefetch.contests(parsed("--sweep", "threshold"))
    assert [job.options["hint_threshold"] for job, _ in thresholds] == [2, 8, 24, 255]
    assert all([store.name for store in plan.stores] == ["async-io", "tailrace"]
               for _, plan in thresholds)  # fmt: skip


def test_findings_follow_from_the_times_of_a_sweep(tmp_path: Path) -> None:
    falling = {0: 5.0, 25: 4.0, 50: 3.0, 75: 2.0, 100: 1.0}
    times = {
        "cache-lru": falling,
        "cache-clock": falling,
        "async-io": {**falling, 0: 4.0, 100: 1.1},
        "tailrace": {key: 0.9 * value for key, value in falling.items()} | {0: 3.9},
    }
    found = findings.findings([swept("skew", times)])
    assert [(each.claim.partition(" ")[0], each.holds) for each in found] == [
        ("Tail", True), ("With", True), ("When", False), ("Keyed", True),
    ]  # fmt: skip
    assert "0 %: 3,900 against 4,000 ms" in found[-1].measured
    times["tailrace"] = {**times["tailrace"], 50: 3.1}
    document = swept("skew", times)
    assert [each.holds for each in findings.findings([document])] == [True, True, False, False]
    result.write(document, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    page = (tmp_path / "f" / "index.html").read_text("utf-8")
    assert page.count("does NOT hold here") == 2
    assert 'aria-label="q13-state by skew"' in page


def test_the_rows_of_the_timeline_change_when_they_should() -> None:
    arguments = parsed("--sweep", "timeline", "--keys", "1000", "--rows", "10", "--batches", "9")
    ((job, plan),) = timeline.contests(arguments)
    assert isinstance(job.events, timeline.ChangingKeys)
    assert job.events.dropped_from == 1000 + (2 + 3) * 10
    assert (job.parameters["dropped_from"], job.parameters["near_from"]) == (3, 6)
    assert plan.stores[0].near, "the checkpoint is not far away, spilled state is"


@pytest.mark.parametrize("dropped_from", [100, 900, 5_000])
def test_the_timelines_query_has_the_rows_of_its_reference(
    spark: SparkSession, dropped_from: int
) -> None:
    options = changed(timeline.CHANGING.events, keys=50, rate=50, dropped_from=dropped_from)
    workload, query = timeline.CHANGING, timeline.CHANGING.query
    reference = expected(spark, workload, 1_000, options, query)
    assert len(reference) == 50
    assert check(spark, workload, {}, 1_000, options, query, 2, reference).equal


@pytest.mark.long
def test_the_timeline_notes_where_hints_are_taken(tmp_path: Path) -> None:
    sizes = ("--keys", "100000", "--limit", "4", "--batches", "6")
    found, page = written(tmp_path, "--sweep", "timeline", *sizes)
    (run,) = found["runs"]
    rows = run["stores"][KEYED.name]["batches"]
    assert all(row["place"] and row["why"] for row in rows)
    assert run["options"]["cold_dir"] == "remote://{folder}"
    assert rows[-1]["custom_metrics"]["tailraceColdBytes"] > 0
    lines = [row["line"] for row in (rows[0], rows[-1])]
    far, near = (line["waited_nanos"] / max(1, line["read"]) for line in lines)
    assert near < far
    assert 'aria-label="timeline"' in page


def test_memory_is_flat_if_it_stays() -> None:
    assert soak.flat([1, 9, 9, 9, 10, 10, 10, 9.8])[2]
    assert not soak.flat([1, 9, 9, 9, 10, 10, 10, 10.1])[2]


@pytest.mark.long
def test_a_soak_ends_by_the_clock_and_compares_all_batches(tmp_path: Path) -> None:
    sizes = ("--keys", "150000", "--limit", "4")
    found, page = written(tmp_path, "--soak", "0.1", *sizes)
    (run,) = found["runs"]
    verdicts = {each.target: each.met for each in targets.verdicts([found])}
    assert verdicts["results equal those of a run without a limit"]
    kept = len(run["stores"][KEYED.name]["batches"])
    assert run["results"]["batches"] == soak.KEPT * kept + 1  # of warm-up
    assert 'aria-label="memory"' in page


class Failing:
    """A side whose queries of one workload fail."""

    store = KEYED

    def __init__(self, *_: Any) -> None:
        self.number = 0
        self.asked: list[str] = []

    def ask(self, command: str, *values: Any) -> Any:
        self.asked.append(command)
        if command == "open":
            self.number = values[0]
        if command == "batch":
            if self.number == 0:
                raise prefetch.BenchError("failed", "of the test", "none")
            return batch(0, 0, 1.0, False)
        return dict(ENVIRONMENT) if command == "environment" else {}

    def close(self) -> None:
        self.asked.append("end")


def test_a_query_that_fails_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = Failing()
    monkeypatch.setattr(contest, "Side", lambda *_: side)
    arguments = parsed("q18,readwrite", "--stores", "tailrace", "--batches", "2", "--rounds", "1")
    document = prefetch.run(arguments, prefetch.Screen(1))
    assert document["interrupted"]
    assert [len(run["stores"]) for run in document["runs"]] == [0, 1]
    assert side.asked.count("abandon") == 1
