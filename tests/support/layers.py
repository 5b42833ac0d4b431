"""The engine's packages and which of them know which, read from the imports of the sources.

Problem: a layer that is only drawn in a document is crossed by the next change.
Answer: the graph is read from the sources, its levels are computed, and ARCHITECTURE.md carries the
drawing. As a program it writes the drawing: `PYTHONPATH=tests python -m support.layers`.
Invariant: a package may use packages of lower levels only; the drawing is the graph.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "engine" / "src"
DOCUMENT = REPOSITORY / "ARCHITECTURE.md"
BEGIN, END = "<!-- layers: begin -->\n", "<!-- layers: end -->\n"
ROOTS = r"(?:_root_\.)?(?:tailrace|org\.apache\.spark\.sql\.tailrace)"
OURS = re.compile(rf"{ROOTS}\b")
IMPORT = re.compile(r"(?:^|(?<=[;{]))[ \t]*import[ \t]+((?:[^{}\n;]|\{[^{}]*\})+)", re.MULTILINE)
"""An import, wherever it stands: its braces may go on over several lines."""
IMPORTED = re.compile(r"([\w.]+)(?:\{([^{}]*)\})?")
WRITTEN_OUT = re.compile(rf"(?<![\w.]){ROOTS}(?:\.[a-z]\w*)+(?=\.[A-Z{{])")
"""A name in full in the code, of a class in a package of any depth."""

Graph = dict[str, set[str]]


def package_of(name: str) -> str:
    """`tailrace.layout.hash` is part of `layout`; a package of Spark's keeps its name."""
    if name.startswith("org.apache.spark."):
        return name.removeprefix("org.apache.spark.").replace("sql.tailrace", "spark-internal")
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else name


def imports_of(text: str) -> set[str]:
    """The packages that a source names: the part of a name before its first capital letter.

    In braces each name counts: `import tailrace.{store, layout}` names two packages.
    """
    found = set()
    for clause in IMPORT.findall(text):
        for prefix, braces in IMPORTED.findall(clause):
            for selector in braces.split(",") if braces else [""]:
                name = prefix + re.split(r"\s|=>", selector.strip())[0]
                if OURS.match(name):
                    found.add(package_part(name))
    rest = IMPORT.sub("", text)
    found.update(package_part(name) for name in WRITTEN_OUT.findall(rest))
    return found


def package_part(name: str) -> str:
    words = name.removeprefix("_root_.").rstrip(".").split(".")
    return ".".join(itertools.takewhile(lambda word: re.match("[a-z]", word), words))


def graph() -> Graph:
    found: Graph = {}
    for source in SOURCES.rglob("*.scala"):
        text = source.read_text(encoding="utf-8")
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        code = re.sub(r"//.*", "", code)
        declared = re.search(r"^package ([\w.]+)", code, re.MULTILINE)
        assert declared, f"{source} names no package"
        package = package_of(declared[1])
        used = {package_of(name) for name in imports_of(code)}
        found.setdefault(package, set()).update(used - {package})
    return found


def levels(packages: Mapping[str, set[str]]) -> list[list[str]]:
    """From the packages that use none of the others up; a cycle is an error that names it."""
    placed: dict[str, int] = {}
    left = dict(packages)
    found: list[list[str]] = []
    while left:
        ready = sorted(name for name, uses in left.items() if uses & set(packages) <= set(placed))
        if not ready:
            circles = {name: sorted(uses & set(left)) for name, uses in sorted(left.items())}
            raise AssertionError(f"packages use each other in circles: {circles}")
        for name in ready:
            placed[name] = len(found)
            del left[name]
        found.append(ready)
    return found


def drawing(packages: Mapping[str, set[str]]) -> str:
    """The levels, highest first, each package with those it uses."""
    lines = ["```"]
    ordered = levels(packages)
    for number in range(len(ordered) - 1, -1, -1):
        for name in ordered[number]:
            uses = ", ".join(sorted(packages[name])) or "none of the others"
            lines.append(f"{number}  {name:28} uses {uses}")
    return "\n".join([*lines, "```", ""])


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}{drawing(graph())}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
