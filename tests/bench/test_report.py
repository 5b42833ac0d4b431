"""The report of a small result: complete, self-contained, and honest about its figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.bench_results import made

from tailrace.bench import result
from tailrace.bench import stores as all_stores
from tailrace.bench.growth import jobs as growth_jobs
from tailrace.bench.plan import job
from tailrace.bench.remote import Remote
from tailrace.bench.report import charts, text
from tailrace.bench.report.svg import Drawings
from tailrace.bench.report.text import conclusion, markdown
from tailrace.bench.rivals import RIVALS
from tailrace.bench.sensitivity import jobs as sensitivity_jobs
from tailrace.bench.soak import UNLIMITED
from tailrace.bench.workloads import WORKLOADS
from tailrace.cli import main


@pytest.fixture
def two_kinds() -> dict[str, Any]:
    return made(
        job(WORKLOADS["update"], {}, rows=1000),
        job(WORKLOADS["q12"], {}, rate=500, trigger=1.0),
        remote=Remote.parse("rtt=30ms,bandwidth=1gbit"),
    )


def test_a_page_and_a_table_are_written(
    two_kinds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.json"
    result.write(two_kinds, path)
    assert main(["report", str(path), "--out", str(tmp_path / "page")]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [file.name for file in written] == ["index.html", "table.md"]
    assert sorted(written) == sorted((tmp_path / "page").iterdir()), "charts are in the page only"
    page = written[0].read_text("utf-8")
    assert re.findall(r'<svg[^>]* aria-label="([^"]*)"', page) == [
        "ratios", "throughput",
        "update: time per batch", "update: distribution", "update: breakdown",
        "q12: time per batch", "q12: distribution", "q12: breakdown",
    ]  # fmt: skip
    assert len(page) < 100_000
    # Nothing is loaded from anywhere.
    assert not re.search(r"src=|href=\"(?!#)|url\((?!#)|<script|@import|http", page)
    assert "A &lt;Processor&gt;" in page
    assert "Not modelled: lost packets" in page
    assert "warm-up batches per store were run before" in page


def test_the_table_has_p50_p99_and_both_ratios_with_their_range(two_kinds: dict[str, Any]) -> None:
    table = markdown([two_kinds])
    assert (
        "| workload | RocksDB: p50, p99 | RocksDB, changelog: p50, p99 | tailrace: p50, p99 "
        "| floor: p50, p99 | against the best RocksDB |"
    ) in table
    assert (
        "| update | 4,005 ms, 4,010 ms | 3,005 ms, 3,010 ms | 2,005 ms, 2,010 ms "
        "| 1,005 ms, 1,010 ms | 1.50x (1.50-1.50), p99 1.50x (1.50-1.50) |"
    ) in table
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
    assert "| against the best RocksDB | against the best of Spark's |" in table
    best = "0.67x (0.67-0.67), p99 0.67x (0.67-0.67)"
    assert f"| 1.33x (1.33-1.33), p99 1.33x (1.33-1.33) | {best} |" in table
    slow = f"by less than 10%: update (HDFSBacked: {best})."
    assert slow in table
    assert slow in conclusion(found)
    assert "The best of Spark's stores is HDFSBacked: 0.67x" in conclusion(found)
    result.write(found, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    assert slow in (tmp_path / "f" / "index.html").read_text("utf-8")


def test_every_ratio_is_told_at_p50_and_p99(tmp_path: Path) -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000))
    result.write(found, tmp_path / "f.json")
    assert main(["report", str(tmp_path / "f.json")]) == 0
    page = (tmp_path / "f" / "index.html").read_text("utf-8")
    for heads in re.findall(r"<tr>(<th>.*?)</tr>", page):
        assert ("p50" in heads or "median" in heads) == ("p99" in heads)
    for said in re.findall(r"<li class[^>]*>(.*?)</li>", page):
        assert "at p99 1.50x (1.50-1.50)" in said
    assert ">1.50x, p99 1.50x<" in page, "the chart of ratios"
    assert "at p99 1.50x (1.50-1.50)" in conclusion(found)


def test_a_ratio_of_the_first_version_has_no_range_at_p99() -> None:
    found = made(job(WORKLOADS["update"], {}, rows=1000))
    for compared in found["runs"][0]["ratios"].values():
        for ratio in compared["stores"].values():
            del ratio["p99_min"], ratio["p99_max"]
    assert "1.50x (1.50-1.50), p99 1.50x |" in markdown([found])


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
    assert 'aria-label="growth"' in (tmp_path / "g" / "index.html").read_text("utf-8")


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
    page = (tmp_path / "s" / "index.html").read_text("utf-8")
    assert all(f'aria-label="{name}"' in page for name in charts.SETTINGS)
    batches = document["runs"][0]["stores"]["tailrace"]["batches"]
    assert [measure(batches) for _, _, measure in charts.SETTINGS.values()] == [3.0, 1.5]
    assert "<td>7.0 ms</td><td>0.0 ms</td><td>4.0 ms</td>" in page


def test_a_drawing_keeps_its_texts_and_loses_what_says_nothing() -> None:
    drawings = Drawings()
    drawn = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
      viewBox="0 0 590.40 230"><metadata>of a tool</metadata><g id="figure_1"><g id="empty"/>
      <defs><path id="m1" d="M 0 0.04 L 1.26 -0.01 z" style="fill: red"/></defs>
      <use xlink:href="#m1" x="1.2345" style="fill: red"/>
      <text style="font-family: 'X'; fill: blue" transform="rotate(-0 1 2)">a &lt; b</text>
      </g></svg>"""
    assert drawings.small(drawn, 'q5 "fast"') == (
        '<svg class="drawing" role="img" aria-label="q5 &quot;fast&quot;" viewBox="0 0 590.4 230">'
        '<defs><path id="m1" d="M0 0L1.3 0z" class="d0"/></defs>'
        '<use href="#m1" x="1.2" class="d0"/><text class="d1">a &lt; b</text></svg>'
    )
    assert ".d0 { fill: red }" in drawings.styles()
    assert ".d1 { fill: blue }" in drawings.styles()


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
    assert set(text.ORDER) == {*all_stores.EVERY, *(s.name for s in (*RIVALS, UNLIMITED))}
