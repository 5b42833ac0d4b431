"""A result in words and tables: for the terminal, for a README.

Problem: the same few figures are wanted in three places.
Answer: they are put into words here, once.
Invariant: a ratio is never shown without its spread, nor without a mark if it is not stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tailrace.bench import plan

Result = Mapping[str, Any]
Run = Mapping[str, Any]

OWN = "tailrace"
ORDER = ("rocksdb", "rocksdb-changelog", "rocksdb-format4", "rocksdb-changelog-format4",
         "rocksdb-counting", "rocksdb-changelog-counting", "hdfs", "zstream",
         "async-checkpoint", "cache-lru", "cache-clock", "async-io", "tailrace",
         "tailrace-before", "tailrace-sync", "tailrace-no-prefetch", "tailrace-local",
         "tailrace-lazy", "tailrace-unlimited",
         "none")  # fmt: skip
NOT_FASTER = 1.1
"""Below this, tailrace is said not to be faster: it is within what a machine's noise can do."""
SAME = 1.05
"""Within this factor two times are called the same."""
OTHER_WORK = 0.1
"""The share of the machine's cores above which other work is said to have disturbed a run."""
REFERENCE_TITLES = {
    "better_rocksdb": "the best RocksDB setting",
    "best_of_spark": "the best of Spark's stores",
    "floor": "the floor",
    "before": "the other checkout",
}


AGAINST = {
    "better_rocksdb": "against the best RocksDB",
    "best_of_spark": "against the best of Spark's",
    "before": "against before",
}


def runs(results: Sequence[Result]) -> Iterator[Run]:
    for result in results:
        for run in result["runs"]:
            if run["stores"]:
                yield run


def label(run: Run) -> str:
    return plan.label(run["workload"], run["parameters"])


def stores(run: Run) -> list[str]:
    """Spark's first, then ours, the floor last."""
    return sorted(run["stores"], key=lambda name: ORDER.index(name) if name in ORDER else 99)


def seconds(value: float) -> str:
    return f"{value * 1000:,.0f} ms" if value < 10 else f"{value:,.1f} s"


def size(value: float) -> str:
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def times(ratio: Mapping[str, Any]) -> str:
    """`2.10x (1.95-2.30), p99 1.90x (1.70-2.00)`, with a mark if its parts disagree."""
    return f"{at_median(ratio)}, p99 {at_p99(ratio)}"


def at_median(ratio: Mapping[str, Any]) -> str:
    mark = "" if ratio["stable"] else " !"
    return f"{ratio['median']:.2f}x ({ratio['min']:.2f}-{ratio['max']:.2f}){mark}"


def at_p99(ratio: Mapping[str, Any]) -> str:
    """The first results have no range here."""
    between = f" ({ratio['p99_min']:.2f}-{ratio['p99_max']:.2f})" if "p99_min" in ratio else ""
    return f"{ratio['p99']:.2f}x{between}"


def own_ratio(run: Run, reference: str) -> Mapping[str, Any] | None:
    """tailrace against this reference, if both were run."""
    found: Mapping[str, Any] | None = run["ratios"].get(reference, {}).get("stores", {}).get(OWN)
    return found


def reference_title(run: Run, reference: str) -> str:
    return str(run["stores"][run["ratios"][reference]["reference"]]["title"])


def headline(run: Run) -> str:
    """The result of a run, against the better RocksDB setting and the best of Spark's stores."""
    if own_ratio(run, "before"):
        return f"{label(run)}: {_since(run)}"
    ratio = own_ratio(run, "better_rocksdb")
    if ratio is None:
        fastest = min(
            (name for name in run["stores"] if not run["stores"][name]["floor"]),
            key=lambda name: run["stores"][name]["summary"]["batch_seconds"]["p50"],
            default=None,
        )
        if fastest is None:
            return f"{label(run)}: the floor alone."
        return f"{label(run)}: {run['stores'][fastest]['title']} has the shortest batches."
    faster = ratio["median"] >= 1
    factor = ratio["median"] if faster else 1 / ratio["median"]
    low, high = sorted((ratio["min"], ratio["max"]) if faster else
                       (1 / ratio["min"], 1 / ratio["max"]))  # fmt: skip
    rival = reference_title(run, "better_rocksdb")
    if factor < SAME:
        verdict = f"tailrace and {rival} take the same time within 5 %"
    else:
        verdict = f"tailrace is {factor:.2f} times as {'fast' if faster else 'slow'} as {rival}"
    parts = ratio["spread_of"]
    return (
        f"{label(run)}: {verdict} (median {ratio['of']}; {low:.2f} to {high:.2f} over {parts}; "
        f"at p99 {at_p99(ratio)})."
        + ("" if ratio["stable"] else f" Not stable: the {parts} differ by more than 15 %.")
        + _best_of_spark(run)
    )


def _since(run: Run) -> str:
    """How much faster or slower than the other checkout, at the median and at p99."""
    ratio = own_ratio(run, "before")
    assert ratio is not None
    typical = _verdict(ratio["median"], ratio["min"], ratio["max"])
    slowest = _verdict(ratio["p99"], ratio["p99_min"], ratio["p99_max"])
    parts = ratio["spread_of"]
    return (
        f"p50 {typical}, p99 {slowest} ({ratio['of']}, before / now: {times(ratio)}, over {parts})."
        + ("" if ratio["stable"] else f" Not stable: the {parts} differ by more than 15 %.")
    )


def _verdict(ratio: float, low: float, high: float) -> str:
    if 1 / SAME <= ratio <= SAME:
        return f"as before within {SAME - 1:.0%}"
    if low <= 1 <= high:
        return "as before within the spread of the run"
    return "faster than before" if ratio > 1 else "SLOWER THAN BEFORE"


def _best_of_spark(run: Run) -> str:
    """Where another store of Spark is faster than RocksDB, that one is the rival too."""
    best, ratio = run["ratios"].get("best_of_spark", {}), own_ratio(run, "best_of_spark")
    if ratio is None or best["reference"] == run["ratios"]["better_rocksdb"]["reference"]:
        return ""
    return (
        f" The best of Spark's stores is {reference_title(run, 'best_of_spark')}: {times(ratio)}."
    )


def prefetched(results: Sequence[Result]) -> str:
    """The targets of the prefetch suite that were missed; empty for other suites."""
    from tailrace.bench import targets

    return targets.summary(results)


def not_faster(present: Sequence[Run]) -> str:
    """Where tailrace gains nothing, in one sentence; empty if there is no such workload."""
    found = []
    for run in present:
        ratio = own_ratio(run, "best_of_spark")
        if ratio is not None and ratio["median"] < NOT_FASTER:
            found.append(f"{label(run)} ({reference_title(run, 'best_of_spark')}: {times(ratio)})")
    if not found:
        return ""
    return (
        f"Not faster than the best of Spark's stores, or by less than {NOT_FASTER - 1:.0%}: "
        f"{'; '.join(found)}."
    )


def conclusion(result: Result) -> str:
    """The text on the terminal at the end of a run."""
    lines = []
    for run in runs([result]):
        lines += ["", f"{label(run)}: {run['title']}"]
        width = max(len(run["stores"][name]["title"]) for name in run["stores"])
        for name in stores(run):
            found = run["stores"][name]["summary"]
            times_of = found["latency_seconds"] or found["batch_seconds"]
            what = "latency" if found["latency_seconds"] else "batch"
            lines.append(
                f"  {run['stores'][name]['title']:<{width}}  {what}"
                f" p50 {seconds(times_of['p50']):>9}"
                f"  p95 {seconds(times_of['p95']):>9}  p99 {seconds(times_of['p99']):>9}"
                f"  {found['rows_per_second']:>11,.0f} rows/s"
            )
        lines.append("  " + headline(run).partition(": ")[2])
        if run["results"]["agree"] is False:
            lines.append("  THE STORES DO NOT AGREE: see results.differences in the file.")
        elif run["results"]["checked"]:
            lines.append(f"  Results agree over {run['results']['batches']} batches.")
    for note in (prefetched([result]), not_faster(list(runs([result]))), disturbed([result])):
        lines += ["", note] if note else []
    if result["interrupted"]:
        lines += ["", "The run was interrupted: this is what was measured until then."]
    return "\n".join(lines).strip("\n")


def markdown(results: Sequence[Result]) -> str:
    """The table for the README: time of a batch at p50 and p99, and which is faster by how much."""
    present = list(runs(results))
    columns = [name for name in ORDER if any(name in run["stores"] for run in present)]
    titles = {name: run["stores"][name]["title"] for run in present for name in run["stores"]}
    against = [name for name in AGAINST if any(own_ratio(run, name) for run in present)]
    if not any(_more_than_rocksdb(run) for run in present):
        against = [name for name in against if name != "best_of_spark"]
    head = ["workload", *(f"{titles[name]}: p50, p99" for name in columns),
            *(AGAINST[name] for name in against)]  # fmt: skip
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(head) - 1)])]
    for run in present:
        cells = [label(run)]
        for name in columns:
            found = run["stores"].get(name, {}).get("summary", {}).get("batch_seconds")
            cells.append(f"{seconds(found['p50'])}, {seconds(found['p99'])}" if found else "")
        for reference in against:
            ratio = own_ratio(run, reference)
            cells.append(times(ratio) if ratio else "")
        lines.append(" | ".join(cells))
    table = "\n".join(f"| {line} |" for line in lines)
    notes = (prefetched(results), not_faster(present), disturbed(results), footnote(results[0]))
    return "\n\n".join([table, *filter(None, notes)]) + "\n"


def _more_than_rocksdb(run: Run) -> bool:
    found = run["ratios"]
    return len(found.get("best_of_spark", {}).get("chosen_from", ())) > len(
        found.get("better_rocksdb", {}).get("chosen_from", ())
    )


def disturbed(results: Sequence[Result]) -> str:
    """Whether other work ran on the machine; empty if not, or if it is not known."""
    shares = [result["environment"].get("other_work_share") or 0 for result in results]
    if max(shares) <= OTHER_WORK:
        return ""
    return (
        f"Other work used up to {max(shares):.0%} of the machine's cores during a run: its times "
        "are too long, and its ratios spread. Ratios are of batches taken in turns."
    )


def apart(settings: Mapping[str, Any]) -> bool:
    """Whether each store had a process of its own."""
    return bool(settings.get("engine_before") or settings.get("processes"))


def footnote(result: Result) -> str:
    """The meaning of the figures, and where they were measured."""
    found, settings = result["environment"], result["settings"]
    remote = settings["remote"]
    sizes = {run["rows_per_batch"] for run in runs([result])}
    rows = f"{sizes.pop():,} rows a batch, " if len(sizes) == 1 and None not in sizes else ""
    where = f"{found['processor'] or 'unknown processor'}, {found['cores']} cores"
    if found["memory_bytes"]:
        where += f", {found['memory_bytes'] / 2**30:.0f} GiB"
    return (
        "Time of a batch at the median and at p99; then how many times as fast tailrace is at "
        "both (in an open loop, by the latency of events), with the range over "
        f"{'repeats' if settings['repeat'] > 1 else 'rounds'} (! where these differ by "
        f"more than 15 %). {rows}{settings['batches'] * settings['repeat']} batches per store, "
        f"after {settings['warmup_batches_cut']} of warm-up, which are cut; all stores in turns"
        f"{'' if apart(settings) else ' in one JVM'}. {where}; {found['os']}; "
        f"{found['java']}; Spark {found['spark']}; tailrace {found['tailrace']}."
        + (
            f" Checkpoint behind a simulated line: {remote['rtt_ms']:g} ms round trip, "
            f"{remote['bandwidth_mbit_per_second'] or 'unlimited'} Mbit/s."
            if remote
            else " Checkpoint on the local disk."
        )
    )
