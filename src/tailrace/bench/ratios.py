"""Which store is faster, by how much, and how sure that is.

Problem: "2.3 times as fast" depends on the choice of reference and measure, and on luck.
Answer: each store is compared with three references: the better of the two RocksDB settings, the
best of Spark's stores, and the floor. Each ratio comes with the ratios of its rounds and repeats.
Invariant: a ratio is reference / store, of times at the median and at p99: above 1 the store is
faster. It is of the same work on both sides (`of`); a round's ratio is of batches of that round.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailrace.bench.statistics import latency_pairs, percentile, spread, weighted_percentile
from tailrace.bench.stores import Store

Rows = Sequence[Mapping[str, Any]]

REFERENCES: dict[str, Callable[[Store], bool]] = {
    "better_rocksdb": lambda store: store.rocksdb,
    "best_of_spark": lambda store: store.sparks,
    "floor": lambda store: store.floor,
    "before": lambda store: store.before,
}


_PARTS: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {
    "rounds": lambda row: (row["repeat"], row["round"]),
    "repeats": lambda row: (row["repeat"],),
}


def ratios(stores: Sequence[Store], rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Per reference: which store it is, and the ratio of every other store to it."""
    measured = [store for store in stores if rows.get(store.name)]
    found: dict[str, Any] = {}
    for name, belongs in REFERENCES.items():
        candidates = [store for store in measured if belongs(store)]
        if not candidates:
            continue
        # The best at the median need not be the best at p99: each ratio is against its own best.
        typical, slowest = (
            min(candidates, key=lambda store: _typical(rows[store.name], percent))
            for percent in (50, 99)
        )
        found[name] = {
            "reference": typical.name,
            "reference_at_p99": slowest.name,
            "chosen_from": [store.name for store in candidates],
            "stores": {
                store.name: {
                    **ratio(rows[typical.name], rows[store.name]),
                    **_at_p99(ratio(rows[slowest.name], rows[store.name])),
                }
                for store in measured
                if store is not typical
            },
        }
    return found


def _at_p99(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name.startswith("p99")}


def ratio(reference: Rows, store: Rows) -> dict[str, Any]:
    """One comparison with its spread."""
    of = compared_by(reference, store)
    rounds = _parts(of, reference, store, _PARTS["rounds"])
    repeats = _parts(of, reference, store, _PARTS["repeats"])
    # Repeats are whole runs: where there are some, these have to agree.
    basis = "repeats" if len(repeats) > 1 else "rounds"
    apart = spread(repeats if basis == "repeats" else rounds)
    slowest = spread(_parts(of, reference, store, _PARTS[basis], 99))
    return {
        "of": of,
        "median": _value(of, reference, 50) / _value(of, store, 50),
        "p95": _value(of, reference, 95) / _value(of, store, 95),
        "p99": _value(of, reference, 99) / _value(of, store, 99),
        "rounds": spread(rounds),
        "repeats": spread(repeats),
        "spread_of": basis,
        "min": apart["min"],
        "max": apart["max"],
        "iqr": apart["iqr"],
        "stable": apart["stable"],
        "p99_min": slowest["min"],
        "p99_max": slowest["max"],
    }


def compared_by(reference: Rows, store: Rows) -> str:
    """The measure that is compared. Batches of different sizes are not the same work.

    In an open loop a slow store has larger batches, so it is the events' latency; where a
    deadline bounds the batches of one side, it is the time per row.
    """
    if latency_pairs(reference) and latency_pairs(store):
        return "latency"
    sizes = {row["rows"] for rows in (reference, store) for row in rows}
    return "batch time" if len(sizes) == 1 else "time per row"


def _parts(
    of: str,
    reference: Rows,
    store: Rows,
    part: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    percent: float = 50,
) -> list[float]:
    """The ratio within each part that both sides have."""
    theirs, ours = _grouped(reference, part), _grouped(store, part)
    return [
        _value(of, theirs[key], percent) / _value(of, ours[key], percent)
        for key in theirs
        if key in ours
    ]


def _grouped(
    rows: Rows, part: Callable[[Mapping[str, Any]], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(part(row), []).append(row)
    return groups


def _value(of: str, rows: Rows, percent: float) -> float:
    if of == "latency":
        return weighted_percentile(latency_pairs(rows), percent)
    per_row = of == "time per row"
    values = [row["seconds"] / (row["rows"] if per_row else 1) for row in rows]
    return statistics.median(values) if percent == 50 else percentile(values, percent)


def _typical(rows: Rows, percent: float) -> float:
    """By which the better of several references is chosen."""
    return _value("latency" if latency_pairs(rows) else "time per row", rows, percent)
