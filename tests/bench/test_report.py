"""The report of a small result: complete, self-contained, and honest about what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tailrace.bench import result
from tailrace.bench import stores as all_stores
from tailrace.bench.growth import jobs as growth_jobs
from tailrace.bench.plan import Job, Plan, job
from tailrace.bench.remote import Remote
from tailrace.bench.report import charts, text
from tailrace.bench.report.text import conclusion, markdown
from tailrace.bench.runner import Outcome
from tailrace.bench.sensitivity import jobs as sensitivity_jobs
from tailrace.bench.stores import chosen
from tailrace.bench.workloads import WORKLOADS
from tailrace.cli import main

PNG = b"\x89PNG\r\n\x1a\n"
STORES = ("rocksdb", "rocksdb-changelog", "tailrace", "none")
ENVIRONMENT = {
    "processor": "A <Processor>",
    "cores": 4,
    "memory_bytes": 2**34,
    "load_before": 0.5,
    "os": "Linux 6",
    "architecture": "x86_64",
    "java": "OpenJDK 17",
    "java_max_heap_bytes": 2**32,
    "python": "3.11",
    "spark": "4.3.0",
    "tailrace": "0.1.0",
    "engine": "0123456789ab",
}


def batch(number: int, round_number: int, seconds: float, latency: bool) -> dict[str, Any]:
    names = ("trigger", "add_batch", "wal", "commit", "planning", "latest_offset", "get_batch",
             "state_update", "state_removal", "state_commit")  # fmt: skip
    row: dict[str, Any] = {
        "repeat": 0,
        "round": round_number,
        "order": number,
        "rows": 1000,
        "seconds": seconds,
        "batch_id": number,
        "phases_ms": dict.fromkeys(names, 100.0 * seconds),
        "state": {"rows": 500, "rows_updated": 9, "rows_removed": 0, "memory_bytes": 12_345},
        "custom_metrics": {},
        "cpu_seconds": {"jvm": seconds, "python": 0.01, "workers": 0.0},
        "gc": {"count": 1, "millis": 5},
        "memory": {"heap_peak_bytes": 10**8, "off_heap_bytes": 10**7, "rss_peak_bytes": None},
        "checkpoint": {"files": 4, "bytes": 4321},
    }
    if latency:
        row["latency_seconds"] = [seconds * share for share in (2.0, 1.5, 1.1)]
    return row


def made(
    *jobs: Job, unstable: bool = False, names: Sequence[str] = STORES, **values: Any
) -> dict[str, Any]:
    """Each store takes a second less than the one before it, the last one a second."""
    plan = Plan(jobs, chosen(names), batches=4, rounds=2, **values)
    outcomes = []
    for one in jobs:
        outcome = Outcome(one)
        for place, name in enumerate(names):
            second = 3.0 if unstable and name == "tailrace" else 1.0
            times = [len(names) - place + 0.01 * n for n in range(2)]
            outcome.rows[name] = [
                batch(4 * place + n, n // 2, time * (second if n > 1 else 1), one.rate is not None)
                for n, time in enumerate(times * 2)
            ]
        outcomes.append(outcome)
    return result.assemble(plan, dict(ENVIRONMENT), outcomes, interrupted=False)


@pytest.fixture
def two_kinds() -> dict[str, Any]:
    return made(
        job(WORKLOADS["update"], {}, rows=1000),
        job(WORKLOADS["q12"], {}, rate=500, trigger=1.0),
        remote=Remote.parse("rtt=30ms,bandwidth=1gbit"),
    )


def test_a_page_pngs_and_a_table_are_written(
    two_kinds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.json"
    result.write(two_kinds, path)
    assert main(["report", str(path), "--out", str(tmp_path / "page")]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {file.name for file in written} == {
        "index.html", "table.md", "throughput.png", "ratios.png",
        "update-time-per-batch.png", "update-distribution.png", "update-breakdown.png",
        "q12-time-per-batch.png", "q12-distribution.png", "q12-breakdown.png",
    }  # fmt: skip
    for file in written:
        assert file.stat().st_size > 0
        assert file.suffix != ".png" or file.read_bytes().startswith(PNG)
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 8
    # Nothing is loaded from anywhere.
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|<script|@import", page)
    assert "A &lt;Processor&gt;" in page
    assert "Not modelled: lost packets" in page
    assert "warm-up batches per store were run before" in page


def test_the_table_has_medians_and_the_ratio_with_its_range(two_kinds: dict[str, Any]) -> None:
    table = markdown([two_kinds])
    assert "| workload | RocksDB | RocksDB, changelog | tailrace | floor |" in table
    assert "| update | 4,005 ms | 3,005 ms | 2,005 ms | 1,005 ms | 1.50x (1.50-1.50) |" in table
    assert "A <Processor>, 4 cores, 16 GiB" in table
    assert "30 ms round trip, 1000.0 Mbit/s" in table


def test_an_unstable_ratio_is_marked_everywhere(tmp_path: Path) -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000), unstable=True)
    assert found["runs"][0]["stable"] is False
    assert " !" in markdown([found])
    assert "Not stable" in conclusion(found)


def test_the_best_of_sparks_stores_is_a_rival_too(tmp_path: Path) -> None:
    names = ("rocksdb", "rocksdb-changelog", "tailrace", "hdfs", "none")
    found = made(job(WORKLOADS["update"], {}, rows=1000), names=names)
    table = markdown([found])
    assert "| against the better RocksDB | against the best of Spark's |" in table
    assert "| 1.33x (1.33-1.33) | 0.67x (0.67-0.67) |" in table
    slow = "by less than 10%: update (HDFSBacked: 0.67x (0.67-0.67))."
    assert slow in table
    assert slow in conclusion(found)
    assert "The best of Spark's stores is HDFSBacked: 0.67x" in conclusion(found)
    result.write(found, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    assert slow in (tmp_path / "f" / "index.html").read_text("utf-8")


def test_other_work_on_the_machine_is_said(tmp_path: Path) -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000))
    assert "Other work" not in markdown([found])
    found["environment"]["other_work_share"] = 0.33
    said = "Other work used up to 33% of the machine"
    assert said in markdown([found])
    assert said in conclusion(found)
    result.write(found, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    assert said in (tmp_path / "f" / "index.html").read_text("utf-8")


def test_an_interrupted_run_and_wrong_results_are_said() -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000))
    found["interrupted"] = True
    found["runs"][0]["results"] |= {"agree": False, "checked": True}
    shown = conclusion(found)
    assert "was interrupted" in shown
    assert "DO NOT AGREE" in shown


def test_growth_gets_a_chart_of_cost_against_size(tmp_path: Path) -> None:
    result.write(made(*growth_jobs({}, [1000, 10_000])), tmp_path / "g.json")
    assert main(["report", str(tmp_path / "g.json")]) == 0
    assert (tmp_path / "g" / "growth.png").read_bytes().startswith(PNG)


def test_settings_get_charts_of_what_they_cost(tmp_path: Path) -> None:
    document = made(*sensitivity_jobs({}))
    for run in document["runs"]:
        for number, row in enumerate(run["stores"]["tailrace"]["batches"]):
            row["custom_metrics"] = {
                "tailraceColdReadBytes": 3000 * number,
                "tailraceColdUsedBytes": 1000 * number,
                "tailraceColdLogBytes": 150,
                "tailraceColdBytes": 100,
                "tailracePutTime": 7,
                "tailraceCleanTime": 4,
            }
    result.write(document, tmp_path / "s.json")
    assert main(["report", str(tmp_path / "s.json")]) == 0
    for name in charts.SETTINGS:
        (chart,) = (tmp_path / "s").glob(f"{name.replace('_', '*')}.png")
        assert chart.read_bytes().startswith(PNG)
    batches = document["runs"][0]["stores"]["tailrace"]["batches"]
    assert [measure(batches) for _, _, measure in charts.SETTINGS.values()] == [3.0, 1.5]
    page = (tmp_path / "s" / "index.html").read_text("utf-8")
    assert "<td>7.0 ms</td><td>0.0 ms</td><td>4.0 ms</td>" in page


def test_the_same_result_gives_the_same_page(tmp_path: Path) -> None:
    result.write(made(job(WORKLOADS["update"], {}, rows=1000)), tmp_path / "f.json")
    pages = []
    for name in ("one", "other"):
        assert main(["report", str(tmp_path / "f.json"), "--out", str(tmp_path / name)]) == 0
        pages.append((tmp_path / name / "index.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "No such file"),
        ("not json", "It is not JSON."),
        ("[1, 2]", 'It does not say "format": "tailrace-bench"'),
        ('{"format": "other"}', 'It does not say "format": "tailrace-bench"'),
        ('{"format": "tailrace-bench", "version": 99}', "It is of version 99"),
        ('{"format": "tailrace-bench", "version": 1}', "it is damaged"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, cause: str
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    assert main(["report", str(path), "--out", str(tmp_path / "page")]) == 1
    told = capsys.readouterr().err
    assert cause in told
    assert "remedy:" in told
    assert not (tmp_path / "page").exists()


def test_a_result_without_batches_has_nothing_to_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, two_kinds: dict[str, Any]
) -> None:
    empty = json.loads(json.dumps(two_kinds))
    for run in empty["runs"]:
        run["stores"] = {}
    result.write(empty, tmp_path / "e.json")
    assert main(["report", str(tmp_path / "e.json")]) == 1
    assert "There is nothing to report." in capsys.readouterr().err


def test_every_store_has_a_colour() -> None:
    assert set(charts.COLOURS) == set(text.ORDER)
    assert set(text.ORDER) == {*all_stores.STORES, *all_stores.BASELINES}
