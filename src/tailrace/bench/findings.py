"""Whether the findings of Keyed Prefetching's figures 7 to 10 hold here, a sentence each.

Problem: a curve that looks like the paper's is easily taken for one.
Answer: each finding is a comparison that was written down before the measurement, with the figures
that decide it.
Invariant: a finding whose figures were not measured is not told.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tailrace.bench.reads import reads
from tailrace.bench.rivals import BASELINES, KEYED
from tailrace.bench.sweeps import SWEEPS
from tailrace.bench.targets import FOUND

Run = Mapping[str, Any]
Times = dict[str, dict[float, float]]
"""Milliseconds by contestant and value of the setting."""

ALIKE = 1.2
"""Times within this factor are called the same: a p99.9 of few batches spreads so much."""
CACHES = ("cache-lru", "cache-clock")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence of the paper, and what was measured here."""

    claim: str
    measured: str
    holds: bool


def findings(results: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Of all sweeps among these results."""
    found: list[Finding] = []
    for result in results:
        name = str(result["settings"]["suite"] or "").removeprefix("prefetch-")
        if name in _OF:
            found += _OF[name]([run for run in result["runs"] if run["stores"]])
    return found


def times(runs: Sequence[Run], sweep: str, query: str, which: str) -> Times:
    """A percentile of the time of a batch, by contestant and value."""
    parameter = SWEEPS[sweep].parameter
    found: Times = {}
    for run in runs:
        if run["workload"] == query:
            for name, store in run["stores"].items():
                value = 1000 * store["summary"]["batch_seconds"][which]
                found.setdefault(name, {})[run["parameters"][parameter]] = value
    return found


def _skew(runs: Sequence[Run]) -> Iterator[Finding]:
    slow = times(runs, "skew", "q13-state", "p99.9")
    if not slow or len(slow["tailrace"]) < 2:
        return
    low, high = min(slow["tailrace"]), max(slow["tailrace"])
    caches = [slow[name] for name in CACHES if name in slow]
    if caches:
        yield Finding(
            "Tail latency drops as skew grows.",
            f"LRU and Clock, p99.9 at {low} and {high} %: "
            + ", ".join(f"{cache[low]:,.0f} and {cache[high]:,.0f} ms" for cache in caches),
            all(cache[high] < cache[low] for cache in caches),
        )
    if "async-io" in slow and caches:
        best = min(cache[low] for cache in caches)
        yield Finding(
            "With little skew asynchronous I/O has a lower tail than the caches.",
            f"p99.9 at {low} %: {slow['async-io'][low]:,.0f} against {best:,.0f} ms",
            slow["async-io"][low] < best,
        )
    at_end = [each[high] for each in slow.values()]
    yield Finding(
        "When all bids are on the hot auction, all perform alike.",
        f"p99.9 at {high} %: {min(at_end):,.0f} to {max(at_end):,.0f} ms",
        max(at_end) <= ALIKE * min(at_end),
    )
    yield from _ahead(slow, "Keyed prefetching has the lowest tail at every skew.", "%")


def _cache(runs: Sequence[Run]) -> Iterator[Finding]:
    grown: dict[str, float] = {}
    for query in SWEEPS["cache"].queries:
        slow = times(runs, "cache", query, "p99.9")
        if not slow or len(slow["tailrace"]) < 2:
            continue
        claim = f"{query}: keyed prefetching has the lowest tail with every size of the cache."
        yield from _ahead(slow, claim, "MB")
        ratios = {name: each[min(each)] / each[max(each)] for name, each in slow.items()}
        grown[query] = ratios["tailrace"]
        caches = [ratios[name] for name in CACHES if name in ratios]
        if "async-io" in ratios and caches:
            yield Finding(
                f"{query}: with a smaller cache asynchronous I/O loses more than the caches do.",
                f"p99.9 grows {ratios['async-io']:.2f} times; the caches' "
                + ", ".join(f"{each:.2f}" for each in caches),
                ratios["async-io"] > max(caches),
            )
    if len(grown) == 2:
        yield Finding(
            "Keyed prefetching depends less on the cache's size with q20 than with q13.",
            ", ".join(f"{query} {each:.2f} times" for query, each in grown.items()),
            grown["q20"] < grown["q13-state"],
        )


def _threshold(runs: Sequence[Run]) -> Iterator[Finding]:
    typical = times(runs, "threshold", "q13-state", "p50")
    slow = times(runs, "threshold", "q13-state", "p99.9")
    if not slow or len(slow["tailrace"]) < 2:
        return
    middle = typical["tailrace"].values()
    yield Finding(
        "The threshold hardly changes the median.",
        f"{min(middle):,.0f} to {max(middle):,.0f} ms",
        max(middle) <= ALIKE * min(middle),
    )
    tail = slow["tailrace"].values()
    yield Finding(
        "It changes p99.9.",
        f"{min(tail):,.0f} to {max(tail):,.0f} ms",
        max(tail) > ALIKE * min(tail),
    )
    yield from _ahead(slow, "With every threshold the tail is below asynchronous I/O.", "")


@dataclasses.dataclass(frozen=True)
class Moment:
    """One batch of the timeline."""

    waited: float
    """Milliseconds, all tasks."""
    missed: float
    """Share of the cold reads whose record was not in memory when it was asked for."""
    access: float
    """Milliseconds from a request for records to their arrival: p99 of a batch's keys."""
    place: str


def moments(run: Run) -> list[Moment]:
    """The batches of a timeline, but for the first, with which the others are compared."""
    batches = run["stores"][KEYED.name]["batches"]
    found = []
    for before, row in itertools.pairwise(batches):
        now = reads([before, row])
        if now is None:
            continue
        metrics = row["custom_metrics"]
        found.append(
            Moment(
                metrics["tailraceColdWaitTime"],
                0.0 if now.found is None else 1 - now.found,
                metrics["tailraceReadAheadTime"],
                row["place"],
            )
        )
    return found


def _timeline(runs: Sequence[Run]) -> Iterator[Finding]:
    for run in runs:
        found = moments(run)
        first, second = (int(run["parameters"][name]) for name in ("dropped_from", "near_from"))
        if len(found) <= second:
            continue
        # The first batch is not among the moments.
        old = found[first - 2].place
        left = next((n for n in range(first - 1, second) if found[n].place != old), None)
        yield Finding(
            "When hints from before an operator are no longer used, a later place is chosen.",
            f"from {old}"
            + (" to no other" if left is None else f" to {found[left].place}, in batch {left + 2}")
            + f"; rows are dropped from batch {first + 1} on",
            left is not None,
        )
        missed = [each.missed for each in found]
        yield Finding(
            "The share of misses stays low, but for a moment at the change.",
            f"{statistics.median(missed):.1%} at the median, {max(missed):.1%} at most",
            statistics.median(missed) < 1 - FOUND,
        )
        far, near = found[second - 2], found[-1]
        yield Finding(
            "When accesses become faster, a later place is chosen, which is enough then.",
            f"{far.place} while an access took {far.access:,.0f} ms, {near.place} at "
            f"{near.access:,.0f} ms",
            near.place != far.place,
        )
        waits = [
            statistics.median(each.waited for each in part)
            for part in (found[first : second - 1], found[second:])
        ]
        yield Finding(
            "Tasks wait less when accesses become faster.",
            f"{waits[0]:,.0f} and {waits[1]:,.0f} ms a batch, all tasks",
            waits[1] < waits[0],
        )


def _ahead(slow: Times, claim: str, unit: str) -> Iterator[Finding]:
    own = slow[KEYED.name]
    others = [slow[store.name] for store in BASELINES if store.name in slow]
    if not others:
        return
    best = {value: min(each[value] for each in others if value in each) for value in own}
    told = ", ".join(
        f"{value} {unit}".strip() + f": {own[value]:,.0f} against {best[value]:,.0f} ms"
        for value in sorted(own)
    )
    yield Finding(claim, told, all(own[value] < best[value] for value in own))


_OF: dict[str, Callable[[Sequence[Run]], Iterator[Finding]]] = {
    "skew": _skew,
    "cache": _cache,
    "threshold": _threshold,
    "timeline": _timeline,
}
