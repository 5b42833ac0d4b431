"""Whether keyed prefetching shows what it must: the targets of `bench prefetch`, and the verdicts.

Problem: a page of figures lets everybody find the one that they like.
Answer: the targets stand here, as they were set before the measurement; each gets a verdict, with
the figure that decided it, for every query that was run.
Invariant: a verdict follows from the batches in the result file alone. A percentile of fewer than
1,000 batches is the slowest of them, and the verdict says of how many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tailrace.bench import soak
from tailrace.bench.reads import Reads, memory_of, reads
from tailrace.bench.rivals import BASELINES, KEYED

Run = Mapping[str, Any]

FOUND = 0.95
WAITED_BELOW = 5.0
TAIL = {"q18": 2.0, "q19": 2.0, "q20": 2.0}
"""How many times lower p99.9 has to be; elsewhere it has to be lower."""
THROUGHPUT = 0.97
"""Within 3 % the rows per second of two contestants are the same: other work makes so much."""
HINTS = 0.05
ROCKSDB_P99 = 3.0
ROCKSDB_UPDATES = 8.0
"""Times the throughput of RocksDB for the update of four million keys."""
STEADY = 2.0
"""p99 over p50 of that update, at most."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One target for one query."""

    query: str
    target: str
    found: str
    met: bool


def verdicts(results: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """All that can be said of these results; nothing of other suites."""
    found: list[Verdict] = []
    for result in results:
        rules = _RULES.get(str(result["settings"]["suite"]), ())
        for run in result["runs"]:
            if KEYED.name in run["stores"]:
                found += [one for rule in rules for one in rule(run)]
    return found


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """How many targets were met, and which were not; empty for other suites."""
    found = verdicts(results)
    if not found:
        return ""
    missed = [f"{each.query}: {each.target} ({each.found})" for each in found if not each.met]
    told = f"{len(found) - len(missed)} of {len(found)} targets are met."
    return told + (f" Missed: {'; '.join(missed)}." if missed else "")


def of(run: Run, name: str) -> Reads | None:
    """The reads of one contestant of a run."""
    return reads(run["stores"][name]["batches"], memory_of(run))


def _found(run: Run) -> Iterator[Verdict]:
    own = of(run, KEYED.name)
    if run["options"].get("cold_io") == "buffered":
        return  # reads from the page cache take too little time to be made ahead
    if own is not None and own.found is not None:
        target = f"at least {FOUND:.0%} of cold reads found in memory when asked for"
        text = f"{own.found:.1%} of {own.asked:,}"
        yield Verdict(run["workload"], target, text, own.found >= FOUND)


def _waited(run: Run) -> Iterator[Verdict]:
    own = of(run, KEYED.name)
    for name, title in _present(run, "cache-lru", "cache-clock"):
        other = of(run, name)
        if own is None or other is None:
            continue
        target = f"tasks wait for state at least {WAITED_BELOW:g} times less than with {title}"
        less = other.waited_millis / own.waited_millis if own.waited_millis else float("inf")
        text = f"{own.waited_millis:,.0f} ms a batch against {other.waited_millis:,.0f}: {less:.1f}"
        yield Verdict(run["workload"], target, text, less >= WAITED_BELOW)


def _tail(run: Run) -> Iterator[Verdict]:
    factor = TAIL.get(run["workload"], 1.0)
    for name, title in _present(run, *(store.name for store in BASELINES)):
        below = "below" if factor == 1 else f"at least {factor:g} times below"
        yield _slowest(run, "p99.9", name, f"p99.9 {below} that of {title}", factor)


def _rocksdb(run: Run) -> Iterator[Verdict]:
    names = [name for name in run["stores"] if name.startswith("rocksdb")]
    if not names:
        return
    best = min(names, key=lambda name: _time(run, name, "p99"))
    if run["workload"] != "update":
        target = f"p99 at least {ROCKSDB_P99:g} times below RocksDB's with the same memory"
        yield _slowest(run, "p99", best, target, ROCKSDB_P99)
        return
    own, *rivals = (
        run["stores"][name]["summary"]["rows_per_second"] for name in (KEYED.name, *names)
    )
    yield Verdict(
        run["workload"],
        f"at least {ROCKSDB_UPDATES:g} times RocksDB's throughput with the same memory",
        f"{own:,.0f} rows/s against {max(rivals):,.0f}: {own / max(rivals):.1f}",
        own >= ROCKSDB_UPDATES * max(rivals),
    )
    typical, slow = _time(run, KEYED.name, "p50"), _time(run, KEYED.name, "p99")
    yield Verdict(
        run["workload"],
        f"p99 within {STEADY:g} times of p50",
        f"{1000 * slow:,.0f} against {1000 * typical:,.0f} ms: {slow / typical:.2f}",
        slow <= STEADY * typical,
    )


def _slowest(run: Run, which: str, name: str, target: str, factor: float) -> Verdict:
    own, other = _time(run, KEYED.name, which), _time(run, name, which)
    count = run["stores"][KEYED.name]["summary"]["batches"]
    text = f"{1000 * own:,.0f} ms against {1000 * other:,.0f} of {count} batches: {other / own:.2f}"
    return Verdict(run["workload"], target, text, other / own >= factor and other > own)


def _throughput(run: Run) -> Iterator[Verdict]:
    own = run["stores"][KEYED.name]["summary"]["rows_per_second"]
    for name, title in _present(run, *(store.name for store in BASELINES)):
        other = run["stores"][name]["summary"]["rows_per_second"]
        target = f"throughput not lower than that of {title}"
        text = f"{own:,.0f} rows/s against {other:,.0f}: {own / other:.2f}"
        yield Verdict(run["workload"], target, text, own >= THROUGHPUT * other)


def _hints(run: Run) -> Iterator[Verdict]:
    own = of(run, KEYED.name)
    if own is not None and own.shuffled_bytes:
        text = f"{own.hint_bytes:,} of {own.shuffled_bytes:,} bytes: {own.hints:.1%}"
        target = f"hints are less than {HINTS:.0%} of the shuffled bytes"
        yield Verdict(run["workload"], target, text, own.hints < HINTS)


def _soaked(run: Run) -> Iterator[Verdict]:
    before, after, is_flat = soak.flat(soak.megabytes(run, KEYED.name))
    text = f"{before:,.0f} MB in the second quarter of the time, {after:,.0f} in the last"
    yield Verdict(run["workload"], "resident memory is flat", text, is_flat)
    results = run["results"]
    text = f"{results['batches']:,} batches compared"
    equal = bool(results["checked"] and results["agree"])
    yield Verdict(run["workload"], "results equal those of a run without a limit", text, equal)


_RULES: dict[str, tuple[Callable[[Run], Iterator[Verdict]], ...]] = {
    "prefetch": (_found, _waited, _tail, _throughput, _hints, _rocksdb),
    soak.SUITE: (_soaked,),
}


def _present(run: Run, *names: str) -> list[tuple[str, str]]:
    stores = run["stores"]
    return [(name, str(stores[name]["title"])) for name in names if name in stores]


def _time(run: Run, name: str, which: str) -> float:
    return float(run["stores"][name]["summary"]["batch_seconds"][which])
