"""The charts of a report, as SVG.

Problem: stores must be recognised at a glance over many charts, also by readers who do not see all
colours.
Answer: one colour per store everywhere (the Okabe-Ito palette), tailrace drawn strongest, the
floor grey; every chart says its unit and where zero is.
Invariant: a chart shows measured batches only, and axes of time and rate start at 0 unless they
are logarithmic.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailrace.bench.report.text import OWN, Result, Run, label, own_ratio, runs, stores
from tailrace.bench.statistics import latency_pairs

COLOURS = {
    "tailrace": "#0072B2",
    "rocksdb": "#D55E00",
    "rocksdb-changelog": "#E69F00",
    "rocksdb-format4": "#882255",
    "rocksdb-changelog-format4": "#AA4499",
    "rocksdb-counting": "#A34700",
    "rocksdb-changelog-counting": "#B98A1C",
    "hdfs": "#CC79A7",
    "none": "#8C8C8C",
    "zstream": "#009E73",
    "async-checkpoint": "#56B4E9",
    "cache-lru": "#D55E00",
    "cache-clock": "#E69F00",
    "async-io": "#009E73",
    "tailrace-unlimited": "#999999",
    "tailrace-sync": "#004C76",
    "tailrace-no-prefetch": "#44AA99",
    "tailrace-local": "#F0E442",
    "tailrace-lazy": "#56B4E9",
    "tailrace-before": "#7A7A7A",
}
MARKED = 24
"""With more batches than this, marks on a line would cover it."""
FINEST_SHARE = 1.5
"""Percent: what a step of a cumulative line is at least, where there are many values."""
PARTS = {
    "planning": ("planning", "#B7C9D6"),
    "wal": ("offset log", "#7FA6BF"),
    "processing": ("processing, with state reads and updates", "#0072B2"),
    "state_commit": ("state commit", "#CC79A7"),
    "commit": ("commit log", "#E69F00"),
    "other": ("other", "#D9D9D9"),
}


def _read_amplification(batches: Sequence[Mapping[str, Any]]) -> float:
    """Bytes read from the log for each byte that was asked for, over the measured batches."""
    first, last = batches[0]["custom_metrics"], batches[-1]["custom_metrics"]
    read, used = (
        last[name] - first[name] for name in ("tailraceColdReadBytes", "tailraceColdUsedBytes")
    )
    return float(read / used) if used else 0.0


def _space_amplification(batches: Sequence[Mapping[str, Any]]) -> float:
    """The largest ratio of the log's size to the bytes of its live records."""
    sizes = [row["custom_metrics"] for row in batches]
    return max(
        (each["tailraceColdLogBytes"] / each["tailraceColdBytes"]
         for each in sizes if each["tailraceColdBytes"]),
        default=0.0,
    )  # fmt: skip


SETTINGS: dict[str, tuple[str, str, Callable[[Sequence[Mapping[str, Any]]], float]]] = {
    "read_batch_ratio": ("read batch ratio", "read amplification", _read_amplification),
    "space_amplification": (
        "bound of the space amplification", "space amplification", _space_amplification,
    ),
}  # fmt: skip

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tailrace",
}


def draw(results: Sequence[Result]) -> dict[str, str]:
    """All charts, by name, in the order in which a page shows them."""
    from tailrace.bench.report import prefetching

    present = list(runs(results))
    with mpl.rc_context(_STYLE):
        drawn = {"throughput": throughput(present)}
        drawn |= prefetching.draw(results)
        if any(own_ratio(run, "better_rocksdb") for run in present):
            drawn["ratios"] = ratios(present)
        if len([run for run in present if "state_rows" in run["parameters"]]) > 1:
            drawn["growth"] = growth(present)
        for parameter in SETTINGS:
            if len([run for run in present if parameter in run["parameters"]]) > 1:
                drawn[parameter] = sensitivity(present, parameter)
        for number, run in enumerate(present):
            name = label(run)
            key = (
                name
                if name not in {label(other) for other in present[:number]}
                else (f"{name} {number}")
            )
            drawn[f"{key}: time per batch"] = time_per_batch(run)
            drawn[f"{key}: distribution"] = distribution(run)
            drawn[f"{key}: breakdown"] = breakdown(run)
    return drawn


def charts_of(images: Mapping[str, str], number: int) -> list[str]:
    """The names of the three charts of the run with this number."""
    own = [name for name in images if ": " in name]
    return own[3 * number : 3 * number + 3]


def time_per_batch(run: Run) -> str:
    figure, axes = new_figure(8.2, 3.2)
    for name in stores(run):
        batches = run["stores"][name]["batches"]
        millis = [1000 * row["seconds"] for row in batches]
        axes.plot(range(1, len(millis) + 1), millis, label=run["stores"][name]["title"],
                  **line_of(name, marker=len(millis) <= MARKED))  # fmt: skip
    axes.set_title(f"{label(run)}: time per batch")
    axes.set_xlabel("measured batch")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    add_legend(axes)
    return as_svg(figure)


def distribution(run: Run) -> str:
    """The CDF: of events' latency in an open loop, of batches' time in a closed one."""
    figure, axes = new_figure(8.2, 3.2)
    for name in stores(run):
        batches = run["stores"][name]["batches"]
        pairs = latency_pairs(batches) or [(row["seconds"], 1.0) for row in batches]
        values, shares = _cumulative(pairs)
        axes.step([1000 * value for value in values], shares, where="post",
                  label=run["stores"][name]["title"], **line_of(name, marker=False))  # fmt: skip
        found = run["stores"][name]["summary"]
        marked = found["latency_seconds"] or found["batch_seconds"]
        for percent, shape in (("p95", "o"), ("p99", "D")):
            axes.plot([1000 * marked[percent]], [float(percent[1:])], shape, color=COLOURS[name],
                      markersize=5, zorder=5)  # fmt: skip
    for height in (95, 99):
        axes.axhline(height, color="#AAAAAA", linewidth=0.8, linestyle=(0, (4, 3)))
        axes.text(1.005, height, f"p{height}", transform=axes.get_yaxis_transform(), fontsize=8,
                  va="center" if height == 99 else "top", color="#777777")  # fmt: skip
    what = "latency of events" if run["loop"] == "open" else "time of batches"
    axes.set_title(f"{label(run)}: {what}, cumulative")
    axes.set_xlabel(f"{what}, milliseconds (marks: p95 round, p99 square)")
    axes.set_ylabel("percent at or below")
    axes.set_ylim(0, 101)
    axes.set_xlim(left=0)
    add_legend(axes)
    return as_svg(figure)


def breakdown(run: Run) -> str:
    names = stores(run)[::-1]
    figure, axes = new_figure(8.2, 1.3 + 0.42 * len(names))
    left = [0.0] * len(names)
    for part, (title, colour) in PARTS.items():
        widths = [_mean_part(run, name, part) for name in names]
        axes.barh(range(len(names)), widths, left=left, color=colour, height=0.62, label=title)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for position, total in enumerate(left):
        axes.text(total, position, f"  {total:,.0f} ms", va="center", fontsize=8.5, color="#333333")
    axes.set_yticks(range(len(names)), [run["stores"][name]["title"] for name in names])
    axes.set_xlim(0, max(left) * 1.14)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("milliseconds, mean of a batch")
    _title(figure, f"{label(run)}: where a batch's time goes")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=len(PARTS),
                  fontsize=8, columnspacing=1.2, handlelength=1.0)  # fmt: skip
    return as_svg(figure)


def throughput(present: Sequence[Run]) -> str:
    names = [name for name in COLOURS if any(name in run["stores"] for run in present)]
    names.sort(key=lambda name: stores_order(name))
    figure, axes = new_figure(max(8.2, min(16.0, 1.6 + 1.25 * len(present))), 3.6)
    width = 0.8 / len(names)
    for offset, name in enumerate(names):
        titles = {run["stores"][name]["title"] for run in present if name in run["stores"]}
        places = [
            (number + (offset - (len(names) - 1) / 2) * width,
             run["stores"][name]["summary"]["rows_per_second"])
            for number, run in enumerate(present) if name in run["stores"]
        ]  # fmt: skip
        axes.bar([x for x, _ in places], [y for _, y in places], width * 0.92,
                 color=COLOURS[name], label=titles.pop(),
                 alpha=0.55 if name == "none" else 1.0)  # fmt: skip
    workload_axis(axes, present)
    axes.set_ylabel("rows per second of batch time")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Throughput")
    add_legend(axes)
    return as_svg(figure)


def ratios(present: Sequence[Run]) -> str:
    """How many times as fast tailrace is as the better RocksDB setting, with the spread."""
    found = [(run, ratio) for run in present if (ratio := own_ratio(run, "better_rocksdb"))]
    figure, axes = new_figure(8.2, 1.1 + 0.36 * len(found))
    for place, (_, ratio) in enumerate(found):
        axes.plot([ratio["min"], ratio["max"]], [place, place], color="#7FB3D5", linewidth=5,
                  solid_capstyle="round", zorder=2)  # fmt: skip
        axes.plot([ratio["median"]], [place], "o", color=COLOURS[OWN], markersize=7, zorder=3)
        axes.plot([ratio["p99"]], [place], "D", color="#D55E00", markersize=5, zorder=3)
        axes.annotate(f"{ratio['median']:.2f}x, p99 {ratio['p99']:.2f}x"
                      + ("" if ratio["stable"] else " (not stable)"),
                      (_furthest(ratio), place), xytext=(9, 0),
                      textcoords="offset points", va="center", fontsize=8.5)  # fmt: skip
    axes.axvline(1, color="#555555", linewidth=1)
    axes.set_yticks(range(len(found)), [label(run) for run, _ in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, max(_furthest(ratio) for _, ratio in found) * 1.32)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times as fast as the best RocksDB setting (round: median, bar: its range; "
                    "square: p99)")  # fmt: skip
    _title(figure, "tailrace against the best of Spark's RocksDB settings")
    return as_svg(figure)


def _furthest(ratio: Mapping[str, Any]) -> float:
    return float(max(ratio["max"], ratio["median"], ratio["p99"]))


def growth(present: Sequence[Run]) -> str:
    figure, axes = new_figure(8.2, 3.6)
    sized = sorted((run for run in present if "state_rows" in run["parameters"]),
                   key=lambda run: run["parameters"]["state_rows"])  # fmt: skip
    names = [name for name in COLOURS if any(name in run["stores"] for run in sized)]
    for name in sorted(names, key=stores_order):
        points = [(run["parameters"]["state_rows"], run["stores"][name])
                  for run in sized if name in run["stores"]]  # fmt: skip
        sizes = [rows for rows, _ in points]
        found = [store["summary"]["batch_seconds"] for _, store in points]
        axes.plot(sizes, [1000 * each["p50"] for each in found], label=points[0][1]["title"],
                  **line_of(name))  # fmt: skip
        axes.fill_between(sizes, [1000 * each["min"] for each in found],
                          [1000 * each["p99"] for each in found], color=COLOURS[name],
                          alpha=0.12, linewidth=0)  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows of state")
    axes.set_ylabel("milliseconds per batch")
    axes.set_title("The same work per batch at growing state (median; shade: fastest to p99)")
    add_legend(axes)
    return as_svg(figure)


def sensitivity(present: Sequence[Run], parameter: str) -> str:
    """Time and its price, an amplification, over the values of a setting."""
    title, what, amplification = SETTINGS[parameter]
    chosen = sorted((run for run in present if parameter in run["parameters"]),
                    key=lambda run: run["parameters"][parameter])  # fmt: skip
    places = range(len(chosen))
    figure, axes = new_figure(8.2, 3.4)
    found = [run["stores"][OWN] for run in chosen]
    millis = [1000 * each["summary"]["batch_seconds"]["p50"] for each in found]
    axes.plot(places, millis, label="time of a batch (median)", **line_of(OWN))
    slowest = [1000 * each["summary"]["batch_seconds"]["p99"] for each in found]
    axes.plot(places, slowest, label="time of a batch (p99)", color=COLOURS[OWN], linewidth=1.2,
              linestyle=(0, (2, 2)))  # fmt: skip
    axes.set_xticks(places, [f"{run['parameters'][parameter]:g}" for run in chosen])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(title)
    axes.set_ylabel("milliseconds per batch")
    axes.set_title(f"{title}: {label(chosen[0]).partition(' (')[0]}, state larger than memory")
    other = axes.twinx()
    other.plot(places, [amplification(each["batches"]) for each in found], color="#D55E00",
               marker="s", markersize=3.5, linewidth=1.5, label=what)  # fmt: skip
    other.set_ylim(bottom=0)
    other.set_ylabel(what)
    other.grid(visible=False)
    lines = [*axes.get_lines(), *other.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], loc="outside lower left",
                  ncols=3, fontsize=8.5)  # fmt: skip
    return as_svg(figure)


def stores_order(name: str) -> int:
    from tailrace.bench.report.text import ORDER

    return ORDER.index(name)


def _mean_part(run: Run, name: str, part: str) -> float:
    """Milliseconds. A store's commits run in parallel and lie within the time of processing."""
    batches = run["stores"][name]["batches"]

    def mean(phase: str) -> float:
        return float(statistics.fmean(row["phases_ms"][phase] for row in batches))

    if part == "other":
        named = sum(_mean_part(run, name, each) for each in PARTS if each != "other")
        return max(0.0, statistics.fmean(1000 * row["seconds"] for row in batches) - named)
    if part in ("processing", "state_commit"):
        slots = int(run["task_slots"])
        commit = min(mean("add_batch"), mean("state_commit") / slots)
        return commit if part == "state_commit" else mean("add_batch") - commit
    return mean(part)


def _cumulative(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    ordered = sorted(pairs)
    total = sum(weight for _, weight in ordered)
    values, shares, reached = [ordered[0][0]], [0.0], 0.0
    for number, (value, weight) in enumerate(ordered):
        reached += weight
        # Of many points some are enough; the last is always there.
        if 100 * reached / total - shares[-1] >= FINEST_SHARE or number == len(ordered) - 1:
            values.append(value)
            shares.append(100 * reached / total)
    return values, shares


def line_of(name: str, marker: bool = True) -> dict[str, Any]:
    return {
        "color": COLOURS[name],
        "linewidth": 2.4 if name == OWN else 1.5,
        "linestyle": (0, (4, 2)) if name == "none" else "-",
        "marker": "o" if marker else None,
        "markersize": 3.5 if marker else 0,
        "zorder": 4 if name == OWN else 3,
    }


def workload_axis(axes: Axes, present: Sequence[Run]) -> None:
    long = max(len(label(run)) for run in present) > 14
    axes.set_xticks(range(len(present)), [label(run).replace(" (", "\n(") for run in present],
                    rotation=25 if long and len(present) > 3 else 0,
                    ha="right" if long and len(present) > 3 else "center")  # fmt: skip
    axes.grid(axis="x", visible=False)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    for background in (figure.patch, axes.patch):
        background.set_visible(False)
    return figure, axes


def _title(figure: Figure, text: str) -> None:
    """For charts with long names at the left, whose axes begin far from the edge."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, fontweight="bold")


def add_legend(axes: Axes) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.03, 0.5), fontsize=8.5, borderaxespad=0)


def as_svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # Without its date and version the same result gives the same text.
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
