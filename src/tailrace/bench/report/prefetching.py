"""What a page says of `bench prefetch` beside the figures of all suites: targets, reads, charts.

Problem: whether prefetching works is not in the time of a batch alone.
Answer: a table of targets with their verdicts at the top, or of the paper's findings with a chart
for a sweep; for each query a table of its reads; two charts over all queries: the slowest batches,
and the time that tasks waited.
Invariant: a target that is missed is shown as plainly as one that is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from tailrace.bench import findings, soak, targets, timeline
from tailrace.bench.report import charts
from tailrace.bench.report.text import Result, Run, runs, size, stores
from tailrace.bench.sweeps import SWEEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SLOWEST = "slowest batches"
WAITING = "waiting"
AXES = {
    "skew": "percent of bids on the hot auction",
    "cache": "megabytes of memory",
    "threshold": "hints are sent of keys that came at most so often among the last 80,000",
}
TIMELINE, MEMORY = "timeline", "memory"
DRAWN = (
    SLOWEST,
    WAITING,
    TIMELINE,
    MEMORY,
    *(f"{query} by {name}" for name in SWEEPS for query in SWEEPS[name].queries),
)


def of_suite(results: Sequence[Result], name: str = "prefetch") -> list[Run]:
    """The runs of a suite among all runs of a report."""
    return [
        run for result in results if result["settings"]["suite"] == name for run in runs([result])
    ]


def section(results: Sequence[Result]) -> list[str]:
    """The verdicts on targets, and on the findings of the paper."""
    verdicts = [
        (each.query, each.target, each.found, "met" if each.met else "MISSED")
        for each in targets.verdicts(results)
    ]
    found = [
        (each.claim, each.measured, "holds here" if each.holds else "does NOT hold here")
        for each in findings.findings(results)
    ]
    return [
        *_table("Targets", ("query", "target", "measured", "verdict"), verdicts),
        *_table("The paper's findings", ("finding", "measured", "verdict"), found),
    ]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    body = "".join(
        f'<tr class="{"missed" if row[-1].isupper() or "NOT" in row[-1] else "own"}">'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    head = "".join(f"<th>{text}</th>" for text in heads)
    return [
        f"<h2>{escape(title)}</h2>",
        f'<div class="scroll"><table class="words"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
    ]


def reads_table(run: Run) -> str:
    """Waiting, reads and hints of each contestant; empty where none counts them."""
    rows = []
    for name in stores(run):
        found = targets.of(run, name) if "shuffled_bytes" in _last(run, name) else None
        if found is None:
            continue
        cells = [
            f"{found.waited_millis:,.1f} ms",
            f"{found.asked:,}",
            "" if found.found is None else f"{found.found:.1%}",
            f"{found.in_vain:,}",
            size(found.hint_bytes),
            size(found.shuffled_bytes),
            f"{found.hints:.1%}",
            "" if found.larger is None else f"{found.larger:.1f} times",
        ]
        kind = "own" if name == "tailrace" else ""
        title = escape(run["stores"][name]["title"])
        body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="{kind}"><td>{title}</td>{body}</tr>')
    if not rows:
        return ""
    heads = ("reads", "tasks waited, per batch", "cold reads", "in memory when asked for",
             "read in vain", "hints", "shuffled", "hints / shuffled",
             "state / memory")  # fmt: skip
    head = "".join(f"<th>{text}</th>" for text in heads)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def draw(results: Sequence[Result]) -> dict[str, str]:
    """The charts over all queries."""
    drawn: dict[str, str] = {}
    present = of_suite(results)
    if present:
        drawn[SLOWEST] = _slowest(present)
    waited = [run for run in present if any(targets.of(run, name) for name in run["stores"])]
    if waited:
        drawn[WAITING] = _waiting(waited)
    for name, sweep in SWEEPS.items():
        swept = of_suite(results, f"prefetch-{name}")
        for query in sweep.queries:
            if any(run["workload"] == query for run in swept):
                drawn[f"{query} by {name}"] = _sweep(swept, name, query)
    for run in of_suite(results, timeline.SUITE):
        drawn[TIMELINE] = _timeline(run)
    for run in of_suite(results, soak.SUITE):
        drawn[MEMORY] = _memory(run)
    return drawn


def _timeline(run: Run) -> str:
    """Waiting and misses of each batch, with the changes and the places of hints."""
    figure, axes = charts.new_figure(8.2, 4.0)
    found = findings.moments(run)
    numbers = range(2, len(found) + 2)
    axes.plot(numbers, [each.waited for each in found], label="tasks waited, ms",
              **charts.line_of("tailrace", marker=False))  # fmt: skip
    axes.set_ylim(bottom=0, top=1.3 * max(each.waited for each in found))
    axes.set_xlabel("batch (dashed: rows begin to be dropped; the file system comes nearer)")
    axes.set_ylabel("milliseconds, all tasks")
    axes.set_title("Keys that change, and a disk that comes nearer")
    for name in ("dropped_from", "near_from"):
        axes.axvline(run["parameters"][name] + 0.5, color="#777777", linestyle=(0, (4, 3)))
    shown = ""
    for number, each in zip(numbers, found, strict=True):
        if each.place != shown:
            shown = each.place
            axes.text(number, 0.97, f" hints: {shown}", transform=axes.get_xaxis_transform(),
                      rotation=0, fontsize=8, va="top", color="#333333")  # fmt: skip
    other = axes.twinx()
    other.plot(numbers, [100 * each.missed for each in found], color="#D55E00", linewidth=1.2,
               label="not in memory when asked for, %")  # fmt: skip
    other.set_ylim(0, 100)
    other.set_ylabel("percent of cold reads")
    other.grid(visible=False)
    lines = [*axes.get_lines()[:1], *other.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], loc="outside lower left",
                  ncols=2, fontsize=8.5)  # fmt: skip
    return charts.as_svg(figure)


def _memory(run: Run) -> str:
    figure, axes = charts.new_figure(8.2, 3.4)
    for name in stores(run):
        values = soak.megabytes(run, name)
        axes.plot(range(1, len(values) + 1), values, label=run["stores"][name]["title"],
                  **charts.line_of(name, marker=False))  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlabel("measured batch")
    axes.set_ylabel("megabytes, peak of the process")
    axes.set_title("Resident memory of the process, Spark's heap included")
    charts.add_legend(axes)
    return charts.as_svg(figure)


def _sweep(present: Sequence[Run], name: str, query: str) -> str:
    """The slowest batches, solid, and the median, dashed, over the values of the setting."""
    figure, axes = charts.new_figure(8.2, 3.6)
    titles = {n: store["title"] for run in present for n, store in run["stores"].items()}
    for which, style in (("p99.9", "-"), ("p50", (0, (2, 2)))):
        found = findings.times(present, name, query, which)
        for store in sorted(found, key=charts.stores_order):
            values = sorted(found[store])
            line = charts.line_of(store) | {"linestyle": style}
            shown = titles[store] if which == "p99.9" else None
            axes.plot(range(len(values)), [found[store][v] for v in values], label=shown, **line)
            axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(AXES[name])
    axes.set_ylabel("milliseconds per batch")
    axes.set_title(f"{query}: p99.9 (dashed: median) by {name}")
    charts.add_legend(axes)
    return charts.as_svg(figure)


def _slowest(present: Sequence[Run]) -> str:
    """Bars up to p99.9, with a mark at the median."""
    figure, axes = charts.new_figure(max(8.2, 1.6 + 1.5 * len(present)), 3.8)
    names = _names(present)
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for number, run in enumerate(present):
            if name not in run["stores"]:
                continue
            store = run["stores"][name]
            times = store["summary"]["batch_seconds"]
            left = number + (place - (len(names) - 1) / 2) * width
            axes.bar(left, 1000 * times["p99.9"], width * 0.92, color=charts.COLOURS[name],
                     label=store["title"])  # fmt: skip
            axes.plot([left - width * 0.46, left + width * 0.46], [1000 * times["p50"]] * 2,
                      color="white", linewidth=1.6, solid_capstyle="butt")  # fmt: skip
    charts.workload_axis(axes, present)
    axes.set_ylabel("milliseconds per batch")
    axes.set_title("p99.9 of the time of a batch (white line: the median)")
    _legend_once(axes)
    return charts.as_svg(figure)


def _waiting(present: Sequence[Run]) -> str:
    figure, axes = charts.new_figure(max(8.2, 1.6 + 1.5 * len(present)), 3.8)
    names = _names(present)
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for number, run in enumerate(present):
            found = targets.of(run, name) if name in run["stores"] else None
            if found is not None:
                left = number + (place - (len(names) - 1) / 2) * width
                axes.bar(left, max(0.1, found.waited_millis), width * 0.92,
                         color=charts.COLOURS[name],
                         label=run["stores"][name]["title"])  # fmt: skip
    charts.workload_axis(axes, present)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds per batch, all tasks")
    axes.set_title("Time that tasks waited for state (logarithmic)")
    _legend_once(axes)
    return charts.as_svg(figure)


def _legend_once(axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    axes.legend(once.values(), once.keys(), loc="center left", bbox_to_anchor=(1.03, 0.5),
                fontsize=8.5, borderaxespad=0)  # fmt: skip


def _names(present: Sequence[Run]) -> list[str]:
    names = {name for run in present for name in run["stores"]}
    return sorted(names, key=charts.stores_order)


def _last(run: Run, name: str) -> dict[str, object]:
    found: dict[str, object] = run["stores"][name]["batches"][-1]
    return found
