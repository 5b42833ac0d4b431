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
ORDER = ("rocksdb", "rocksdb-changelog", "hdfs", "zstream", "async-checkpoint", "tailrace", "none")
REFERENCE_TITLES = {
    "better_rocksdb": "the better RocksDB setting",
    "best_of_spark": "the best of Spark's stores",
    "floor": "the floor",
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
    """`2.10x (1.95-2.30)`, with a mark if its parts disagree."""
    mark = "" if ratio["stable"] else " !"
    return f"{ratio['median']:.2f}x ({ratio['min']:.2f}-{ratio['max']:.2f}){mark}"


def headline(run: Run) -> str:
    """The one sentence about a run."""
    compared = run["ratios"].get("better_rocksdb", {})
    ratio = compared.get("stores", {}).get(OWN)
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
    rival = run["stores"][compared["reference"]]["title"]
    if factor < 1.05:
        verdict = f"tailrace and {rival} take the same time within 5 %"
    else:
        verdict = f"tailrace is {factor:.2f} times as {'fast' if faster else 'slow'} as {rival}"
    parts = ratio["spread_of"]
    return (
        f"{label(run)}: {verdict} (median {ratio['of']}; {low:.2f} to {high:.2f} over {parts})."
        + ("" if ratio["stable"] else f" Not stable: the {parts} differ by more than 15 %.")
    )


def conclusion(result: Result) -> str:
    """What the terminal shows at the end of a run."""
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
    if result["interrupted"]:
        lines += ["", "The run was interrupted: this is what was measured until then."]
    return "\n".join(lines).strip("\n")


def markdown(results: Sequence[Result]) -> str:
    """The table for the README: median time of a batch, and who is faster by how much."""
    present = list(runs(results))
    columns = [name for name in ORDER if any(name in run["stores"] for run in present)]
    titles = {name: run["stores"][name]["title"] for run in present for name in run["stores"]}
    head = ["workload", *(titles[name] for name in columns), "against the better RocksDB"]
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(columns) + 1)])]
    for run in present:
        cells = [label(run)]
        for name in columns:
            store = run["stores"].get(name)
            cells.append(seconds(store["summary"]["batch_seconds"]["p50"]) if store else "")
        ratio = run["ratios"].get("better_rocksdb", {}).get("stores", {}).get(OWN)
        cells.append(times(ratio) if ratio else "")
        lines.append(" | ".join(cells))
    table = "\n".join(f"| {line} |" for line in lines)
    return f"{table}\n\n{footnote(results[0])}\n"


def footnote(result: Result) -> str:
    """What the figures are, and where they were measured."""
    found, settings = result["environment"], result["settings"]
    remote = settings["remote"]
    where = f"{found['processor'] or 'unknown processor'}, {found['cores']} cores"
    if found["memory_bytes"]:
        where += f", {found['memory_bytes'] / 2**30:.0f} GiB"
    return (
        "Median time of a batch; in the last column how many times as fast tailrace is (in an open "
        "loop, by the latency of events), with the range over "
        f"{'repeats' if settings['repeat'] > 1 else 'rounds'} (! where these differ by "
        f"more than 15 %). All stores in turns in one JVM; {settings['warmup_batches_cut']} "
        f"warm-up batches per store cut. {where}; {found['os']}; {found['java']}; Spark "
        f"{found['spark']}; tailrace {found['tailrace']}."
        + (
            f" Checkpoint behind a simulated line: {remote['rtt_ms']:g} ms round trip, "
            f"{remote['bandwidth_mbit_per_second'] or 'unlimited'} Mbit/s."
            if remote
            else " Checkpoint on the local disk."
        )
    )
