"""Result files: small, a line per batch, and the same figures when they are read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.bench_results import made

from tailrace.bench import compact, result
from tailrace.bench.plan import job
from tailrace.bench.stores import COUNTING
from tailrace.bench.workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
MOST_BYTES = 500_000
"""Of a suite: its result, its page and its figures."""
LINES_PER_BATCH = 3
LINES_PER_RUN = 100
"""What is told of a workload, of each store, and the ratios between them."""


def small() -> dict[str, Any]:
    jobs = [job(WORKLOADS["update"], {}, rows=1000), job(WORKLOADS["q12"], {}, rate=500)]
    found = made(*jobs)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_a_result_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    found = small()
    result.write(found, tmp_path / "f.json")
    assert result.read(tmp_path / "f.json") == found


@pytest.mark.parametrize(
    "odd",
    [
        {"custom_metrics": {}},
        {"custom_metrics": {"a/b": 1}},
        {"custom_metrics": {"a.b": 0, "c": None}},
        {"line": {"rename": 3}},
        {"latency_seconds": []},
    ],
)
def test_batches_that_differ_in_what_they_have_are_kept_as_they_are(odd: dict[str, Any]) -> None:
    found = small()
    batches = found["runs"][0]["stores"]["tailrace"]["batches"]
    batches[1] |= odd
    del batches[2]["gc"]
    assert compact.unpacked(json.loads(compact.text(compact.packed(found)))) == found


def test_what_follows_from_batches_has_six_digits_and_batches_have_all() -> None:
    assert result.rounded({"a": [1 / 3, {"b": 123456.789}], "n": 1234567, "c": None}) == {
        "a": [0.333333, {"b": 123457.0}], "n": 1234567, "c": None,
    }  # fmt: skip
    found = small()["runs"][0]
    assert found["stores"]["rocksdb"]["batches"][1]["phases_ms"]["wal"] == 100.0 * 4.01
    ratio = found["ratios"]["better_rocksdb"]["stores"]["tailrace"]["median"]
    assert len(str(ratio)) <= 7


def test_a_batch_is_a_line(tmp_path: Path) -> None:
    result.write(small(), tmp_path / "f.json")
    lines = (tmp_path / "f.json").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith(" " * 6 + "[0,")]
    assert len(rows) == 4 * 4 * 2  # batches, stores, runs
    assert len(lines) < 200


def test_results_of_the_first_version_are_still_read(tmp_path: Path) -> None:
    found = small()
    old = {**found, "version": 1}
    (tmp_path / "old.json").write_text(json.dumps(old, indent=1))
    assert result.read(tmp_path / "old.json") == found


def test_rocksdb_that_counted_its_rows_is_told_by_its_name(tmp_path: Path) -> None:
    found = small()
    for run in found["runs"]:
        for store in run["stores"].values():
            store["settings"].pop(COUNTING, None)
    (tmp_path / "old.json").write_text(json.dumps({**found, "version": 1}))
    (run, _) = result.read(tmp_path / "old.json")["runs"]
    names = ["rocksdb-counting", "rocksdb-changelog-counting", "tailrace", "none"]
    assert list(run["stores"]) == names
    assert run["stores"][names[0]]["title"] == "RocksDB, counting rows"
    assert run["ratios"]["better_rocksdb"]["reference"] == names[1]
    assert run["ratios"]["better_rocksdb"]["chosen_from"] == names[:2]
    assert set(run["ratios"]["floor"]["stores"]) == set(names[:3])
    assert "rocksdb" not in json.dumps(run["results"]).replace("rocksdb-", "")


def suites() -> list[str]:
    return sorted({path.stem for path in RESULTS.iterdir()})


@pytest.mark.parametrize("suite", suites())
def test_a_committed_suite_is_small(suite: str) -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    own = [path for path in files if path.relative_to(RESULTS).parts[0].split(".")[0] == suite]
    size = sum(path.stat().st_size for path in own)
    assert size <= MOST_BYTES, f"{suite} has {size:,} bytes"


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.stem)
def test_a_committed_result_has_few_lines(path: Path) -> None:
    content = path.read_text("utf-8")
    found = json.loads(content)
    stores = [store for run in found.get("runs", ()) for store in run["stores"].values()]
    batches = sum(len(store["batches"]) for store in stores)
    lines = len(content.splitlines())
    allowed = LINES_PER_BATCH * batches + LINES_PER_RUN * max(1, len(found.get("runs", ())))
    assert lines <= allowed, f"{lines} lines for {batches} batches"
