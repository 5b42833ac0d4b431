"""The engine's packages are layers: none uses one above it, and ARCHITECTURE.md draws them so.

`PYTHONPATH=tests python -m support.layers` writes the drawing anew.
"""

from __future__ import annotations

import pytest
from support.layers import BEGIN, DOCUMENT, END, SOURCES, drawing, graph, imports_of, levels

# A file longer than this is a reason to split it.
MOST_LINES = 500
MOST_CHARACTERS = 104


def test_no_package_uses_one_above_it() -> None:
    assert len(levels(graph())) > 3


def test_the_document_draws_the_packages_as_they_are() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    drawn = text.partition(BEGIN)[2].partition(END)[0]
    assert drawn == drawing(graph()), "PYTHONPATH=tests python -m support.layers writes it anew"


def test_a_circle_is_found_and_named() -> None:
    with pytest.raises(AssertionError, match=r"circles: {'a': \['b'\], 'b': \['a'\]}"):
        levels({"a": {"b", "c"}, "b": {"a"}, "c": set()})


def test_all_ways_to_name_a_package_are_seen() -> None:
    source = """
import tailrace.store.StateTable.Position
import tailrace.layout.{Cursor, Record}
import org.apache.spark.sql.tailrace.operators._
    throw new tailrace.errors.CorruptFile(name)
"""
    assert imports_of(source) == {
        "tailrace.store",
        "tailrace.layout",
        "org.apache.spark.sql.tailrace.operators",
        "tailrace.errors",
    }


@pytest.mark.parametrize(
    ("source", "packages"),
    [
        ("import tailrace.{store, layout}", {"tailrace.store", "tailrace.layout"}),
        ("import tailrace.{store => kept, io => _}", {"tailrace.store", "tailrace.io"}),
        ("import tailrace.{\n  store,\n  layout\n}\n", {"tailrace.store", "tailrace.layout"}),
        (
            "import tailrace.layout.{hash, Record}",
            {"tailrace.layout", "tailrace.layout.hash"},
        ),
        ("import java.util, tailrace.store.StateTable", {"tailrace.store"}),
        ("import tailrace.{io}, tailrace.store._", {"tailrace.io", "tailrace.store"}),
        ("import _root_.tailrace.store._", {"tailrace.store"}),
        ("object A {\n  import tailrace.store.StateTable\n}", {"tailrace.store"}),
        ("def f = { import tailrace.store._; 1 }", {"tailrace.store"}),
        ("val a = new tailrace.layout.hash.HashLayout(1)", {"tailrace.layout.hash"}),
        ("f(tailrace.layout.hash.HashLayout.Size)", {"tailrace.layout.hash"}),
        (
            "val a: org.apache.spark.sql.tailrace.operators.Rows",
            {"org.apache.spark.sql.tailrace.operators"},
        ),
        ("import other.tailrace.store.X\nother.tailrace.store.X", set()),
        ('conf.get("tailrace.memory.limit")', set()),
    ],
)
def test_names_of_packages_are_seen_wherever_they_stand(source: str, packages: set[str]) -> None:
    assert imports_of(source) == packages


def test_no_source_is_too_long() -> None:
    lengths = {
        str(path.relative_to(SOURCES)): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCES.rglob("*.scala")
    }
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}


def test_no_line_is_too_long() -> None:
    """Import lines are as long as the names in them."""
    folders = (SOURCES, SOURCES.parents[1] / "tests" / "jvm")
    found = [
        f"{path.name}:{number}: {len(line)}"
        for folder in folders
        for path in sorted(folder.rglob("*.scala"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST_CHARACTERS and not line.startswith("import ")
    ]
    assert found == []
