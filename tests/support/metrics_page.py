"""docs/metrics.md, from the engine's own table of metrics.

Problem: a page about metrics that is written by hand is about those of some earlier version.
Answer: the table between two marks is made from the engine's own one (StoreMetrics), and
a test compares. As a program this writes it: `PYTHONPATH=tests python -m support.metrics_page`.
Invariant: text outside of the marks is not changed.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from support.compilation import REPOSITORY
from tailrace import _jvm

PAGE = REPOSITORY / "docs" / "metrics.md"
BEGIN = "<!-- the engine's table begins -->\n"
END = "<!-- the engine's table ends -->\n"


def described(spark: SparkSession) -> list[tuple[str, str, str]]:
    """Name, kind and meaning of each metric."""
    found = _jvm.engine(spark).classes.spark.StoreMetrics.described()
    return [(row[0], row[1], row[2]) for row in found]


def table(spark: SparkSession) -> str:
    rows = [f"| `{name}` | {kind} | {meaning} |\n" for name, kind, meaning in described(spark)]
    return "".join(["| metric | kind | what it says |\n", "| --- | --- | --- |\n", *rows])


def page_with(table: str, page: Path = PAGE) -> str:
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{page.name} has lost the marks of its table"
    return before + begin + table + end + after


def main() -> None:
    from support.processes import session

    spark = session()
    PAGE.write_text(page_with(table(spark)), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
