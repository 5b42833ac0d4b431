"""Bad input is reported before Spark starts, with its problem, cause and remedy."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tailrace.bench import checking, restore, runner
from tailrace.bench.plan import ALONE, SUITE, Plan
from tailrace.bench.remote import Remote
from tailrace.bench.stores import BenchError
from tailrace.bench.workloads import Pattern
from tailrace.cli import bench, main


def planned(*arguments: str) -> Plan:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.plan_of(bench.checked(parser.parse_args(arguments)))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "There is no workload to run."),
        (["q55"], "There is no workload 'q55'."),
        (["q5", "--suite", "flow"], "There is no suite 'flow'."),
        (["ysb", "--suite", "flowkv"], "There is no workload to run."),
        (["q5", "--stores", "rocks"], "There is no store 'rocks'."),
        (["q5", "--stores", ","], "There is no store to run."),
        (["q5", "--stores", "hdfs,hdfs"], "A store was named twice."),
        (["update", "--stores", "rocksdb-format4"], "There is no store to run update on."),
        (["q5", "--baseline", "misa"], "There is no baseline 'misa'."),
        (["q5", "--rows", "0"], "--rows cannot be 0."),
        (["q5", "--rows", "3000000000"], "--rows cannot be 3000000000."),
        (["q5", "--rate", "0"], "--rate cannot be 0."),
        (["q5", "--cores", "0"], "--cores cannot be 0."),
        (["q5", "--cores", "-2"], "--cores cannot be -2."),
        (["q5", "--cores", "100000"], "--cores cannot be 100000."),
        (["check", "--cores", "0"], "--cores cannot be 0."),
        (["restore", "--cores", "0"], "--cores cannot be 0."),
        (["restore", "--repeat", "0"], "--repeat cannot be 0."),
        (["growth", "--rows", "0"], "--rows cannot be 0."),
        (["growth", "--sizes", "100,0"], "--sizes cannot be 0."),
        (["sensitivity", "--rows", "0"], "--rows cannot be 0."),
        (["misa", "--rates", "1500,-1"], "--rates cannot be -1."),
        (["misa", "--triggers", "0"], "--triggers cannot be 0.0."),
        (["misa", "--scale", "0"], "--scale cannot be 0.0."),
        (["misa", "--scale", "nan"], "--scale cannot be nan."),
        (["q5", "--rate", "5", "--trigger", "inf"], "--trigger cannot be inf."),
        (["update", "--keys", "0"], "--keys cannot be 0."),
        (["q5", "--rounds", "0"], "--rounds cannot be 0."),
        (["q5", "--memory", "lots"], "--memory cannot be 'lots'."),
        (["q5", "--memory", "1m"], "--memory cannot be 1m."),
        (["q5", "--memory", "9000t"], "--memory cannot be 9000t."),
        (["q5", "--batches", "0"], "--batches cannot be 0."),
        (["q5", "--warmup", "-1"], "--warmup cannot be -1."),
        (["q5", "--repeat", "0"], "--repeat cannot be 0."),
        (["q5", "--partitions", "0"], "--partitions cannot be 0."),
        (["q5", "--rate", "5", "--trigger", "-1"], "--trigger cannot be -1.0."),
        (["q5", "--trigger", "1"], "--trigger was given without --rate."),
        (["q5", "--rows", "5", "--rate", "5"], "--rows and --rate were both given."),
        (["q5", "--keys", "5"], "q5 has no number of keys to choose."),
        (["q5", "--option", "disorder"], "--option does not understand 'disorder'."),
        (["q5", "--option", "disordre=1"], "have no option disordre"),
        (["q5", "--option", "window=soon"], "Option window does not take the value 'soon'."),
        (["q5", "--remote", "rtt=30"], "--remote does not understand 'rtt=30'."),
        (["q5", "--remote", "rtt=0ms"], "--remote describes a line without any cost."),
        (["growth", "--sizes", "big"], "--sizes does not understand 'big'."),
        (["misa", "--rates", "fast"], "--rates does not understand 'fast'."),
        (["q5", "--out", "no/such/folder/x.json"], "The result cannot be written to"),
        (["q5", "--out", "."], "The result cannot be written to"),
        (["restore", "--keys", "5"], "is too few for a restore."),
        (["restore", "--out", "."], "The result cannot be written to"),
        (["check", "--rows", "5"], "--rows 5 is too few to check."),
        (["check", "q55"], "There is no workload 'q55'."),
    ],
)
def test_bad_input_is_told_before_spark_starts(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    for module in (runner, restore, checking):
        monkeypatch.setattr(module, "run", lambda *_: pytest.fail("Spark would have started"))
    assert main(["bench", *arguments]) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert "cause:" in told
    assert "remedy:" in told


def test_a_close_name_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "q5", "--stores", "tailrac"]) == 1
    assert "Did you mean tailrace?" in capsys.readouterr().err


def test_list_shows_workloads_suites_and_stores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    shown = capsys.readouterr().out
    for word in ("q11-median", "flowkv", "rocksdb-changelog", "async-checkpoint"):
        assert word in shown


def test_a_suite_has_sizes_of_its_own() -> None:
    suite, alone = planned("nexmark", "--suite", "flowkv"), planned("q5")
    assert (suite.batches, suite.warmup, suite.rounds) == (
        SUITE.batches,
        SUITE.warmup,
        SUITE.rounds,
    )
    assert {job.rows for job in suite.jobs} == {SUITE.rows}
    # The references are the better RocksDB setting, the best of Spark's stores, and the floor.
    assert [store.name for store in suite.stores] == bench.STORES.split(",")
    assert (alone.batches, alone.warmup, alone.rounds) == (
        ALONE.batches,
        ALONE.warmup,
        ALONE.rounds,
    )
    assert alone.jobs[0].rows == alone.jobs[0].workload.rows_per_batch


COUNTING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@pytest.mark.parametrize("arguments", [["q20"], ["--suite", "evict"], ["misa"]])
def test_the_rivals_are_set_as_an_expert_would(arguments: list[str]) -> None:
    plan = planned(*arguments)
    for job in plan.jobs:
        rivals = [store for store in plan.stores_of(job) if store.rocksdb]
        assert {store.confs[COUNTING] for store in rivals} == {"false"}
        found = {(store.confs[CHANGELOG], store.confs.get(JOIN_FORMAT, "2")) for store in rivals}
        plain = {("true", "2"), ("false", "2")}
        is_join = Pattern.JOIN in job.workload.patterns
        assert found == (plain | {("true", "4"), ("false", "4")} if is_join else plain)
        assert "hdfs" in {store.name for store in plan.stores_of(job)}
    assert plan.steps == sum(len(plan.stores_of(job)) for job in plan.jobs) * (
        plan.warmup + plan.batches
    )


def test_misa_has_the_papers_partitions() -> None:
    assert planned("misa").partitions == 8
    assert planned("misa", "--partitions", "3").partitions == 3


def test_what_was_given_goes_before_the_sizes_of_a_suite() -> None:
    plan = planned("q5", "--suite", "flowkv", "--rows", "7", "--batches", "3", "--warmup", "0")
    assert (plan.jobs[0].rows, plan.batches, plan.warmup, plan.rounds) == (7, 3, 0, SUITE.rounds)
    (job,) = planned("q5", "--suite", "flowkv", "--rate", "100").jobs
    assert (job.loop, job.events.rate) == ("open", 100)


@pytest.mark.parametrize(
    ("text", "nanos", "bytes_per_second"),
    [
        ("rtt=30ms,bandwidth=1gbit", 30_000_000, 125_000_000),
        ("bandwidth=10mb/s", 0, 10_000_000),
        ("rtt=0.5ms", 500_000, 0),
        ("rtt=200us , bandwidth=100Mbit", 200_000, 12_500_000),
    ],
)
def test_a_line_is_understood(text: str, nanos: int, bytes_per_second: int) -> None:
    assert Remote.parse(text) == Remote(nanos, bytes_per_second)


def test_an_output_that_exists_is_not_touched_by_the_check(tmp_path: Path) -> None:
    from tailrace.bench.plan import check_output

    path = tmp_path / "kept.json"
    path.write_text("kept")
    check_output(path)
    assert path.read_text() == "kept"
    with pytest.raises(BenchError):
        check_output(path / "below.json")
