"""The report's page: one HTML file with everything in it.

Problem: a page is mailed, put on a web server or opened from a disk, and must look the same.
Answer: styles and drawings are inside; there is no script, and nothing to load from an address.
Invariant: text from a result file is escaped.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tailrace.bench.report import charts, prefetching
from tailrace.bench.report.svg import Drawings
from tailrace.bench.report.text import (
    OWN,
    REFERENCE_TITLES,
    Result,
    Run,
    apart,
    at_median,
    at_p99,
    disturbed,
    headline,
    label,
    not_faster,
    runs,
    seconds,
    size,
    stores,
)

STYLE = """
:root { --ink: #1d2630; --soft: #5b6875; --line: #dde3e8; --own: #0072b2; --wash: #f5f8fa; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid var(--own); margin-bottom: 1.5rem; padding-bottom: 1rem; }
h1 { font-size: 1.9rem; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.3rem; margin: 2.75rem 0 0.5rem; }
p.lead { color: var(--soft); margin: 0.25rem 0 0; }
ul.findings { padding: 0; list-style: none; }
ul.findings li { padding: 0.55rem 0.9rem; margin: 0.4rem 0; background: var(--wash);
  border-left: 4px solid var(--own); border-radius: 0 4px 4px 0; }
ul.findings li.unsure { border-left-color: #e69f00; }
.scroll { overflow-x: auto; margin: 0.6rem 0 1.1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.82rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.35rem 0.42rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
tr.own td { font-weight: 600; background: #eef6fb; }
tr.missed td { background: #fdf0ea; }
table.words td { white-space: normal; text-align: left; }
tr.floor td { color: var(--soft); font-style: italic; }
.dot { display: inline-block; width: 0.65rem; height: 0.65rem; border-radius: 50%;
  margin-right: 0.45rem; }
svg.drawing { width: min(100%, 58rem); height: auto; display: block; margin: 0.75rem 0; }
svg.drawing text { font-family: "DejaVu Sans", Verdana, system-ui, sans-serif; }
.warn { background: #fff6e0; border-left: 4px solid #e69f00; padding: 0.6rem 0.9rem;
  margin: 0.75rem 0; }
.note, dl { color: var(--soft); font-size: 0.88rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; }
dt { font-weight: 600; } dd { margin: 0; }
"""


def html(results: Sequence[Result], images: Mapping[str, str]) -> str:
    """The whole page."""
    present = list(runs(results))
    drawings = Drawings()
    drawn = {name: drawings.small(image, name) for name, image in images.items()}
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>tailrace bench</title><style>{STYLE}{drawings.styles()}</style></head>",
        "<body><main>",
        "<header><h1>tailrace bench</h1>",
        f'<p class="lead">{escape(_lead(results, present))}</p></header>',
        *_warnings(results, present),
        *prefetching.section(results),
        "<h2>Findings</h2>",
        _findings(present),
        *(
            drawn[name]
            for name in (*prefetching.DRAWN, "ratios", "throughput", "growth", *charts.SETTINGS)
            if name in drawn
        ),
    ]
    for number, run in enumerate(present):
        parts += _section(run, drawn, charts.charts_of(drawn, number))
    parts += ["<h2>How this was measured</h2>", *map(_method, results), "</main></body></html>"]
    return "\n".join(parts) + "\n"


def _lead(results: Sequence[Result], present: Sequence[Run]) -> str:
    found = results[0]["environment"]
    names = list(dict.fromkeys(name for run in present for name in stores(run)))
    return (
        f"{len(present)} workload{'s' if len(present) != 1 else ''} on {len(names)} state stores, "
        f"in turns. tailrace {found['tailrace']} on Spark {found['spark']}, "
        f"{results[0]['created'][:10]}."
    )


def _warnings(results: Sequence[Result], present: Sequence[Run]) -> list[str]:
    found = []
    if any(result["interrupted"] for result in results):
        found.append("A run was interrupted: the figures are of what was measured until then.")
    for run in present:
        if run["results"]["agree"] is False:
            found.append(f"{label(run)}: the stores did not give the same results.")
    if any(len(_rivals(run)) == 1 for run in present):
        found.append(
            "Only one RocksDB setting was run in part of the workloads: the best one there is that "
            "one."
        )
    if other := disturbed(results):
        found.append(other)
    busy = [result["environment"] for result in results]
    if any((each["load_before"] or 0) > each["cores"] for each in busy):
        found.append(
            "The machine was busy with other work when a run started: its load was above its "
            "number of cores. Ratios are of batches taken in turns; absolute times are too long."
        )
    return [f'<p class="warn">{escape(text)}</p>' for text in found]


def _rivals(run: Run) -> list[str]:
    return list(run["ratios"].get("better_rocksdb", {}).get("chosen_from", ()))


def _findings(present: Sequence[Run]) -> str:
    items = "".join(
        f'<li class="{"unsure" if "Not stable" in text else "sure"}">{escape(text)}</li>'
        for text in map(headline, present)
    )
    slow = not_faster(present)
    if slow:
        items += f'<li class="unsure">{escape(slow)}</li>'
    return f'<ul class="findings">{items}</ul>'


def _section(run: Run, drawn: Mapping[str, str], names: Sequence[str]) -> list[str]:
    how = (
        f"open loop, {run['rate']:,} arrivals a second, a batch every {run['trigger_seconds']:g} s"
        if run["loop"] == "open"
        else f"closed loop, {run['rows_per_batch']:,} rows a batch"
    )
    agreed = run["results"]
    checked = (
        f"results compared over {agreed['batches']} batches: "
        + ("equal" if agreed["agree"] else "NOT EQUAL")
        if agreed["checked"]
        else "results not compared"
    )
    return [
        f"<h2>{escape(label(run))}</h2>",
        f"<p>{escape(run['title'])}.</p>",
        f'<p class="note">{escape("; ".join((how, run["pattern"], checked, _few(run))))}.</p>',
        _store_table(run),
        _ratio_table(run),
        prefetching.reads_table(run),
        _line_table(run),
        _work_table(run),
        *(drawn[name] for name in names),
    ]


def _few(run: Run) -> str:
    """How many batches a percentile is of."""
    least = min(store["summary"]["batches"] for store in run["stores"].values())
    many = f"{least} measured batches per store"
    if least >= 1000:
        return many
    slowest = "p99.9 is" if least >= 100 else "p99 and p99.9 are"
    return f"{many}, so {slowest} the slowest of them"


def _store_table(run: Run) -> str:
    latency = any(run["stores"][name]["summary"]["latency_seconds"] for name in run["stores"])
    heads = ["store", "batch p50", "p95", "p99", "p99.9"]
    heads += ["latency p50", "p99"] if latency else []
    heads += ["rows/s", "CPU s/batch", "GC ms", "state rows", "state memory", "files/batch",
              "written/batch"]  # fmt: skip
    rows = []
    for name in stores(run):
        store = run["stores"][name]
        found: Mapping[str, Any] = store["summary"]
        cells = [seconds(found["batch_seconds"][key]) for key in ("p50", "p95", "p99", "p99.9")]
        if latency:
            cells += [
                seconds(found["latency_seconds"][key]) if found["latency_seconds"] else ""
                for key in ("p50", "p99")
            ]
        cells += [
            f"{found['rows_per_second']:,.0f}",
            f"{found['cpu_seconds_per_batch']:.2f}",
            f"{found['gc_millis']:,}",
            "not counted" if found["state_rows"] is None else f"{found['state_rows']:,}",
            size(found["memory"]["state_bytes"]),
            f"{found['checkpoint_files_per_batch']:.1f}",
            size(found["checkpoint_bytes_per_batch"]),
        ]
        kind = "own" if name == OWN else "floor" if store["floor"] else ""
        dot = f'<span class="dot" style="background:{charts.COLOURS.get(name, "#000")}"></span>'
        title = f'<td title="{escape(store["note"])}">{dot}{escape(store["title"])}</td>'
        body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="{kind}">{title}{body}</tr>')
    return _table(heads, rows)


def _ratio_table(run: Run) -> str:
    rows = []
    for reference, compared in run["ratios"].items():
        names = (compared["reference"], compared.get("reference_at_p99", compared["reference"]))
        titles = dict.fromkeys(run["stores"][name]["title"] for name in names)
        against = ", at p99 ".join(titles)
        for name, ratio in compared["stores"].items():
            if run["stores"][name]["floor"] or (reference != "better_rocksdb" and name != OWN):
                continue
            cells = [
                f"{REFERENCE_TITLES[reference]} ({against})",
                ratio["of"],
                at_median(ratio),
                f"{ratio['iqr'][0]:.2f}-{ratio['iqr'][1]:.2f}",
                f"{ratio['p95']:.2f}x",
                at_p99(ratio),
                "yes" if ratio["stable"] else "no",
            ]
            body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            kind = "own" if name == OWN else ""
            title = escape(run["stores"][name]["title"])
            rows.append(f'<tr class="{kind}"><td>{title}</td>{body}</tr>')
    if not rows:
        return ""
    heads = [
        "times as fast",
        "as",
        "by",
        "median (range)",
        "quartiles",
        "at p95",
        "at p99 (range)",
        "stable within 15 %",
    ]
    return _table(heads, rows)


# The metrics of a store's time, in ms: writing, reading and deleting, merging.
_WORK = {
    "rocksdb": (
        ("rocksdbPutLatency", "rocksdbCommitFlushLatency"),
        ("rocksdbGetLatency",),
        ("rocksdbTotalCompactionLatencyMs", "rocksdbCommitCompactLatency"),
    ),
    "tailrace": (
        ("tailracePutTime", "tailraceSpillTime"),
        ("tailraceGetTime", "tailraceRemoveTime"),
        ("tailraceCleanTime",),
    ),
}


def _work_table(run: Run) -> str:
    """FlowKV's breakdown of a store's time, as far as the stores measure it."""
    rows = []
    for name in stores(run):
        kinds = _WORK.get(name.partition("-")[0])
        if kinds is None:
            continue
        batches = [row["custom_metrics"] for row in run["stores"][name]["batches"]]
        sums = [
            sum(metrics.get(each, 0) for metrics in batches for each in kind) / len(batches)
            for kind in kinds
        ]
        total = statistics.fmean(
            row["phases_ms"]["state_update"]
            + row["phases_ms"]["state_removal"]
            + row["phases_ms"]["state_commit"]
            for row in run["stores"][name]["batches"]
        )
        cells = [*(f"{each:,.1f} ms" for each in sums), f"{total:,.0f} ms"]
        body = "".join(f"<td>{cell}</td>" for cell in cells)
        kind = "own" if name == OWN else ""
        rows.append(
            f'<tr class="{kind}"><td>{escape(run["stores"][name]["title"])}</td>{body}</tr>'
        )
    heads = ["the store's work, per batch, all tasks", "writing", "reading and deleting",
             "merging", "Spark's operators around it: update, removal, commit"]  # fmt: skip
    return _table(heads, rows) if rows else ""


def _line_table(run: Run) -> str:
    """Each store's operations and bytes on the simulated line, where there is one."""
    rows = []
    for name in stores(run):
        line = run["stores"][name]["summary"].get("line_per_batch")
        if line is None:
            continue
        kinds = {k: n for k, n in line.items() if not k.startswith(("bytes_", "waited_"))}
        cells = [
            f"{sum(kinds.values()):.1f}",
            ", ".join(f"{k} {n:.1f}" for k, n in sorted(kinds.items(), key=lambda kn: -kn[1])[:4]),
            size(line["bytes_written"]),
            size(line["bytes_read"]),
            f"{line['waited_nanos'] / 1e6:,.0f} ms",
        ]
        body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        kind = "own" if name == OWN else "floor" if run["stores"][name]["floor"] else ""
        title = escape(run["stores"][name]["title"])
        rows.append(f'<tr class="{kind}"><td>{title}</td>{body}</tr>')
    heads = ["over the line, per batch", "operations", "most of them", "sent", "received",
             "waited, all threads"]  # fmt: skip
    return _table(heads, rows) if rows else ""


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _method(result: Result) -> str:
    found, settings = result["environment"], result["settings"]
    gib = 2**30
    facts = {
        "machine": f"{found['processor'] or 'unknown processor'}, {found['cores']} cores, "
        f"{(found['memory_bytes'] or 0) / gib:.0f} GiB, {found['os']} ({found['architecture']})",
        "versions": f"{found['java']}, Python {found['python']}, Spark {found['spark']}, tailrace "
        f"{found['tailrace']} (engine {found['engine']})",
        "session": f"{settings['cores']} task slots, {settings['partitions']} shuffle partitions, "
        f"{settings['driver_memory']} heap; "
        + ("a JVM for each side" if apart(settings) else "one JVM for all stores"),
        "order": settings["interleaving"],
        "batches": f"{settings['batches']} measured per store, in {settings['rounds']} rounds, "
        f"{settings['repeat']} repeat(s); {settings['warmup_batches_cut']} warm-up batches per "
        "store were run before and are in no figure",
        "time of a batch": "from the moment its rows were let through until the query asked for "
        "the next ones: planning, logs, processing, state, commit",
        "ratio": "time of the reference over time of the store, at the median and at p99 (each "
        "against the best reference there), by the time of batches, or by the latency of events in "
        "an open loop (where a slow store has larger batches), with the range over rounds (or "
        "repeats, if there are several); the best of the RocksDB settings is the rival",
        "floor": "a store that keeps nothing, in vanilla Spark; its results are wrong and never "
        "checked. tailrace also writes Spark's own logs faster, so it can go below it",
        "background": "what a store leaves to background threads may run into another store's "
        "turn; a turn is several batches long so that most of it falls into its own",
        "memory": "state memory is what a store reports itself; the JVM's is shared by all stores",
        "checkpoint": settings["remote"]["model"]
        + f" Round trip {settings['remote']['rtt_ms']:g} ms, bandwidth "
        f"{settings['remote']['bandwidth_mbit_per_second'] or 'unlimited'} Mbit/s."
        if settings["remote"]
        else "on the local disk",
    }
    if str(settings["suite"]).startswith("prefetch"):
        from tailrace.bench.prefetch import NOTE as SUITE_NOTE

        facts["prefetch"] = SUITE_NOTE
    if settings["suite"] == "misa":
        from tailrace.bench.misa import NOTE

        facts["baselines"] = NOTE
    return "<dl>" + "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"
