"""A result as text that stays small: a line per batch, and the names of its figures once.

Problem: results are committed, and a batch has eighty figures. A line and a name for each of them
makes megabytes that no reader and no diff can use.
Answer: the names of the figures are said once (`columns`, by number), and each batch is one line,
an array of its figures in that order. `cpu_seconds/jvm` is `jvm` in the group `cpu_seconds`.
Invariant: `unpacked(packed(x)) == x` for every result, to the last digit; the text is plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ABSENT = "-"
"""Stands for a figure that a batch does not have, while others of its store do."""
_BETWEEN = "/"
_WIDTH = 1_500
"""What is not longer stands on one line."""


def packed(result: Mapping[str, Any]) -> dict[str, Any]:
    """The same result with each store's batches as rows of a table."""
    known: list[list[str]] = []
    runs = _changed(result["runs"], lambda store: _packed_store(store, known))
    rest = {name: value for name, value in result.items() if name != "runs"}
    return {**rest, "columns": known, "runs": runs}


def unpacked(result: Mapping[str, Any]) -> dict[str, Any]:
    """The opposite. A store without `columns` has its batches as they are."""
    known = result.get("columns", ())
    rest = {name: value for name, value in result.items() if name != "columns"}
    return {**rest, "runs": _changed(result["runs"], lambda store: _unpacked_store(store, known))}


def text(value: Any) -> str:
    """JSON: tables with a line per row, short parts on one line, the rest indented."""
    return "".join(_lines(value, "")) + "\n"


def _changed(
    runs: Iterable[Mapping[str, Any]], change: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {**run, "stores": {name: change(store) for name, store in run["stores"].items()}}
        for run in runs
    ]


def _packed_store(store: Mapping[str, Any], known: list[list[str]]) -> dict[str, Any]:
    rows = [dict(_figures(batch)) for batch in store["batches"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if columns not in known:
        known.append(columns)
    table = [[row.get(name, ABSENT) for name in columns] for row in rows]
    rest = {name: value for name, value in store.items() if name != "batches"}
    return {**rest, "columns": known.index(columns), "batches": table}


def _unpacked_store(store: Mapping[str, Any], known: Sequence[list[str]]) -> dict[str, Any]:
    if "columns" not in store:
        return dict(store)
    columns = [column.split(_BETWEEN) for column in known[store["columns"]]]
    batches = []
    for row in store["batches"]:
        batch: dict[str, Any] = {}
        for (*groups, name), value in zip(columns, row, strict=True):
            if value != ABSENT:
                place = batch
                for group in groups:
                    place = place.setdefault(group, {})
                place[name] = value
        batches.append(batch)
    rest = {name: value for name, value in store.items() if name != "columns"}
    return {**rest, "batches": batches}


def _figures(group: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in group.items():
        # An empty group has no figure to stand for it, and a name may look like a path.
        if isinstance(value, Mapping) and value and not any(_BETWEEN in key for key in value):
            yield from _figures(value, f"{before}{name}{_BETWEEN}")
        else:
            yield before + name, value


def _lines(value: Any, indent: str) -> Iterable[str]:
    short = json.dumps(value, separators=(",", ":"))
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        yield short
    elif isinstance(value, Mapping):
        if len(short) <= _WIDTH:
            yield json.dumps(value)
            return
        parts: Iterable[tuple[str, Any]] = (
            (f"{json.dumps(key)}: ", part) for key, part in value.items()
        )
        yield from _broken("{", parts, "}", indent)
    elif _is_table(value) or (len(short) > _WIDTH and any(isinstance(p, Mapping) for p in value)):
        yield from _broken("[", (("", part) for part in value), "]", indent)
    else:
        yield short


def _broken(begin: str, parts: Iterable[tuple[str, Any]], end: str, indent: str) -> Iterable[str]:
    within = indent + " "
    mark = begin
    for name, part in parts:
        yield f"{mark}\n{within}{name}"
        yield from _lines(part, within)
        mark = ","
    yield f"\n{indent}{end}"


def _is_table(value: Sequence[Any]) -> bool:
    return all(isinstance(row, (list, tuple)) for row in value)
