"""A result file as a page to show and a table for a README.

Problem: a JSON with every batch in it is not read.
Answer: one HTML page with its charts in it, which needs no network and no other file, and the table
as Markdown.
Invariant: every figure shown is in the result file, or follows from it by bench.statistics; a limit
of its meaning (an unstable ratio, an interrupted run, a simulated line) is shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailrace.bench import result
from tailrace.bench.stores import BenchError


def write(files: Sequence[Path], folder: Path) -> list[Path]:
    """Writes index.html and table.md into a folder; gives their paths."""
    results = [result.read(path) for path in files]
    if not any(run["stores"] for found in results for run in found["runs"]):
        raise BenchError(
            "There is nothing to report.",
            "The files hold no measured batch: the runs were interrupted before one.",
            "Measure again.",
        )
    try:
        from tailrace.bench.report import charts
    except ImportError as error:
        raise BenchError(
            "The charts cannot be drawn.",
            f"{error}.",
            'Install what they need: pip install "tailrace[bench]"',
        ) from None
    from tailrace.bench.report import page, text

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "table.md").write_text(text.markdown(results), encoding="utf-8")
        (folder / "index.html").write_text(
            page.html(results, charts.draw(results)), encoding="utf-8"
        )
    except OSError as error:
        raise BenchError(
            f"The report cannot be written to {folder}.",
            f"{error.strerror or error}.",
            "Name a folder that can be written with --out.",
        ) from None
    return [folder / "index.html", folder / "table.md"]
