"""The prefetch suite: contestants do the same work, and verdicts follow from the batches."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from support.bench_results import batch

from tailrace.bench import contest, prefetch, reads, result, targets
from tailrace.bench.events import YsbRedisOptions
from tailrace.bench.plan import Plan
from tailrace.bench.prefetch import QUERIES
from tailrace.bench.rivals import KEYED, RIVALS
from tailrace.bench.runner import Outcome
from tailrace.cli import bench, main
from tailrace.options import CONF_PREFIX, describe

SMALL = ["--keys", "100000", "--rows", "1000", "--batches", "4", "--warmup", "1", "--rounds", "2",
         "--memory", "1g", "--partitions", "1", "--cores", "1"]  # fmt: skip


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.checked(parser.parse_args(["prefetch", *arguments]))


def run_of(tmp_path: Path, query: str, *arguments: str) -> dict[str, Any]:
    out = tmp_path / "result.json"
    assert main(["bench", "prefetch", query, *SMALL, *arguments, "--out", str(out)]) == 0
    found = result.read(out)
    assert len(out.read_bytes()) < 500_000
    assert str(tmp_path) not in out.read_text("utf-8"), "no path in a result"
    return found


def test_contestants_do_the_same_and_read_their_state_from_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--keys", "40000", "--batches", "2")
    found = run_of(tmp_path, "readwrite", "--stores", "cache-lru,tailrace", *sizes)
    (run,) = found["runs"]
    assert run["results"]["agree"] is True
    assert run["options"] == {"memory_limit": "4m", "cold_io": "direct"}
    assert len({row["order"] for each in run["stores"].values() for row in each["batches"]}) == 4
    lru, keyed = targets.of(run, "cache-lru"), targets.of(run, "tailrace")
    assert lru is not None
    assert keyed is not None
    assert lru.in_memory == 0 < lru.asked
    assert lru.waited_millis > 0
    assert keyed.in_memory > 0
    assert keyed.shuffled_bytes > 0
    assert min(lru.larger or 0, keyed.larger or 0) > 1, "more state than memory"
    told = capsys.readouterr().out
    assert "targets are met" in told
    assert main(["report", str(tmp_path / "result.json")]) == 0
    page = (tmp_path / "result" / "index.html").read_text("utf-8")
    assert "in memory when asked for" in page
    assert "slowest batches" in page
    assert "a JVM for each side" in page


@pytest.mark.parametrize("name", sorted(set(QUERIES) - {"readwrite", "ysb-redis"}))
def test_every_query_gives_the_same_results_with_every_contestant(
    tmp_path: Path, name: str
) -> None:
    (run,) = run_of(tmp_path, name, *(["--limit", "8"] if QUERIES[name].joins else []))["runs"]
    assert list(run["stores"]) == [store.name for store in RIVALS]
    assert run["results"]["agree"] is True
    for store in run["stores"]:
        figures = targets.of(run, store)
        assert figures is not None
        assert figures.asked > 0


def test_an_enrichment_is_counted(tmp_path: Path) -> None:
    (run,) = run_of(tmp_path, "ysb-redis", "--stores", "cache-clock,async-io,tailrace")["runs"]
    assert run["results"]["agree"] is True
    one_by_one, together = (run["stores"][n]["batches"][-1] for n in ("cache-clock", "async-io"))
    a, b = one_by_one["custom_metrics"], together["custom_metrics"]
    assert a["enrich/requests"] == a["enrich/keys_read"] > 0
    assert b["enrich/requests"] < b["enrich/keys_read"]
    figures = targets.of(run, "tailrace")
    assert figures is not None
    assert figures.waited_millis > 0


def test_rocksdb_has_the_same_memory(tmp_path: Path) -> None:
    (run,) = run_of(tmp_path, "readwrite", "--rocksdb")["runs"]
    assert set(run["stores"]) == {"tailrace", "rocksdb", "rocksdb-changelog"}
    assert run["results"]["agree"] is True
    found = [each for each in targets.verdicts([run_document(run)]) if "RocksDB" in each.target]
    assert len(found) == 1
    assert run["options"]["cold_io"] == "buffered"


def run_document(run: dict[str, Any]) -> dict[str, Any]:
    return {"settings": {"suite": "prefetch"}, "runs": [run]}


def test_memory_is_a_tenth_of_the_state() -> None:
    found = prefetch.contests(parsed())
    assert [job.workload.name for job, _ in found] == list(QUERIES)
    for job, plan in found:
        assert plan.stores == RIVALS
        query = QUERIES[job.workload.name]
        if isinstance(job.events, YsbRedisOptions):
            assert 2 * job.events.cache_kib * 1024 * 10 <= job.events.ads * query.record_bytes
        else:
            limit = int(job.options["memory_limit"].removesuffix("m")) * 1_000_000
            assert limit * 10 <= query.keys * query.record_bytes
            assert job.preload == job.events.preload
            assert job.options["cold_io"] == "direct"
    ((job, _),) = prefetch.contests(parsed("q18", "--limit", "77", "--option", "bidders=2"))
    assert job.options["memory_limit"] == "77m"
    assert job.events.bidders == 2  # type: ignore[attr-defined]


def test_a_task_of_the_enrichment_has_several_batches() -> None:
    plan = prefetch.plan_of(parsed("ysb-redis", "--rows", "6000", "--partitions", "2"))
    rows = prefetch.settings(plan)["spark.sql.execution.arrow.maxRecordsPerBatch"]
    assert 6000 / 3 / 2 / int(rows) >= 8


def test_the_settings_of_a_contestant_are_options() -> None:
    known = {option.conf: option.rule for option in describe()}
    for store in RIVALS:
        for conf, value in store.confs.items():
            if conf.startswith(CONF_PREFIX):
                assert known[conf].accepts(value)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["q17"], "bench prefetch has no query 'q17'."),
        (["--stores", "cache-lruu"], "bench prefetch has no contestant 'cache-lruu'."),
        (["--stores", "tailrace,tailrace"], "--stores names no contestant, or one twice."),
        (["--keys", "0"], "--keys cannot be 0."),
    ],
)
def test_bad_input_is_told_before_a_process_starts(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.setattr(contest, "Side", lambda *_: pytest.fail("a process would have started"))
    assert main(["bench", "prefetch", *arguments]) == 1
    assert problem in capsys.readouterr().err


def measured(seconds: dict[str, float], waited: dict[str, int], hint_bytes: int) -> dict[str, Any]:
    """A result of Q18 with these times per batch."""
    ((job, _),) = prefetch.contests(parsed("q18"))
    plan = Plan((job,), RIVALS, batches=4, rounds=2, suite="prefetch")
    outcome = Outcome(job)
    for name, each in seconds.items():
        outcome.rows[name] = []
        for n in range(4):
            row = batch(n, n // 2, each, latency=False)
            hits = 96 * n if name == KEYED.name else 0
            row["custom_metrics"] = {
                "tailraceColdWaitTime": waited[name],
                "tailraceColdBytes": 10**9,
                "tailraceLiveBytes": 0,
                "tailracePrefetchHits": hits,
                "tailracePrefetchLate": n,
                "tailracePrefetchMisses": 100 * n - hits - n,
                "tailraceHintBytes": hint_bytes * n if name == KEYED.name else 0,
            }
            row["shuffled_bytes"] = 1000
            outcome.rows[name].append(row)
    from support.bench_results import ENVIRONMENT

    return result.assemble(plan, dict(ENVIRONMENT), [outcome], interrupted=False)


def verdicts_of(found: dict[str, Any]) -> dict[str, bool]:
    return {each.target: each.met for each in targets.verdicts([found])}


def test_a_result_that_meets_all_targets() -> None:
    times = {"cache-lru": 3.0, "cache-clock": 3.0, "async-io": 2.1, "tailrace": 1.0}
    waited = {"cache-lru": 50, "cache-clock": 60, "async-io": 20, "tailrace": 10}
    found = measured(times, waited, hint_bytes=49)
    figures = targets.of(found["runs"][0], "tailrace")
    assert figures is not None
    assert (figures.asked, figures.in_memory, figures.waited_millis) == (300, 288, 10)
    assert (figures.hint_bytes, figures.shuffled_bytes) == (147, 3000)
    assert all(verdicts_of(found).values())
    assert len(verdicts_of(found)) == 10
    assert "10 of 10 targets are met." in targets.summary([found])


def test_every_target_that_is_missed_is_said(tmp_path: Path) -> None:
    times = {"cache-lru": 1.0, "cache-clock": 1.9, "async-io": 2.1, "tailrace": 1.1}
    waited = {"cache-lru": 49, "cache-clock": 60, "async-io": 20, "tailrace": 10}
    found = measured(times, waited, hint_bytes=50)
    missed = [target for target, met in verdicts_of(found).items() if not met]
    assert missed == [
        "tasks wait for state at least 5 times less than with LRU cache",
        "p99.9 at least 2 times below that of LRU cache",
        "p99.9 at least 2 times below that of Clock cache",
        "p99.9 at least 2 times below that of asynchronous I/O",
        "throughput not lower than that of LRU cache",
        "hints are less than 5% of the shuffled bytes",
    ]
    result.write(found, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    page = (tmp_path / "f" / "index.html").read_text("utf-8")
    assert page.count("MISSED") == len(missed)
    assert "4 of 10 targets are met. Missed: q18: " in (tmp_path / "f" / "table.md").read_text()


def test_a_store_that_counts_nothing_has_no_reads() -> None:
    rows = [batch(n, 0, 1.0, latency=False) for n in range(3)]
    assert reads.reads(rows) is None
    assert json.loads(json.dumps(rows)) == rows
