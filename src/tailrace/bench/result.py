"""The result of a run as a file.

Problem: a figure in a report must be traceable to the batches it came from, on another machine
and a year later.
Answer: one JSON file with the environment, every measured batch, summaries and ratios; a line per
batch (compact.py).
Invariant: everything in summaries and ratios follows from the batches in the same file. No host
name, user or path is in it.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.bench import compact
from tailrace.bench.plan import Job, Plan
from tailrace.bench.ratios import ratios
from tailrace.bench.statistics import TOLERANCE, latency_pairs, summary, weighted_summary
from tailrace.bench.stores import (
    COUNTING,
    ROCKSDB,
    ROCKSDB_CHANGELOG,
    ROCKSDB_CHANGELOG_COUNTING,
    ROCKSDB_COUNTING,
    BenchError,
    Store,
)

if TYPE_CHECKING:
    from tailrace.bench.runner import Outcome

FORMAT = "tailrace-bench"
VERSION = 2
"""1 had its batches as objects; both are read."""

Rows = Sequence[Mapping[str, Any]]


def assemble(
    plan: Plan, environment: dict[str, Any], outcomes: Sequence[Outcome], interrupted: bool
) -> dict[str, Any]:
    """The whole file."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "interrupted": interrupted,
        "environment": environment,
        "settings": described(plan),
        "runs": [
            run(
                outcome.job,
                plan.stores,
                outcome.rows,
                outcome.agreements,
                min(plan.cores, plan.partitions),
            )
            for outcome in outcomes
        ],
    }


def described(plan: Plan) -> dict[str, Any]:
    return {
        "suite": plan.suite,
        "batches": plan.batches,
        "warmup_batches_cut": plan.warmup,
        "rounds": plan.rounds,
        "repeat": plan.repeat,
        "partitions": plan.partitions,
        "cores": plan.cores,
        "driver_memory": plan.memory,
        "seed": plan.seed,
        "results_checked": plan.check,
        "interleaving": "one session and one JVM; each store runs its share of a round's batches, "
        "then the next store; the order moves on by one in every round",
        "remote": plan.remote.described() if plan.remote else None,
    }


def run(
    job: Job,
    stores: Sequence[Store],
    rows: Mapping[str, Rows],
    agreements: Sequence[Mapping[str, Any]],
    task_slots: int,
) -> dict[str, Any]:
    """One workload."""
    compared = ratios(stores, rows)
    return {
        "workload": job.workload.name,
        "title": job.workload.title,
        "pattern": job.workload.pattern,
        "output_mode": job.workload.output_mode,
        "loop": job.loop,
        "rows_per_batch": job.rows if job.loop == "closed" else None,
        "rate": job.rate,
        "trigger_seconds": job.trigger or None,
        "preloaded_rows": job.preload,
        "task_slots": task_slots,
        "parameters": dict(job.parameters),
        "options": dict(job.options),
        "events": dataclasses.asdict(job.events),
        "query": dataclasses.asdict(job.query),
        "stores": {
            store.name: {
                "title": store.title,
                "note": store.note,
                "floor": store.floor,
                "settings": dict(store.confs),
                "summary": rounded(summarized(rows[store.name])),
                "batches": list(rows[store.name]),
            }
            for store in stores
            if rows.get(store.name)
        },
        "results": _results(agreements),
        "ratios": rounded(compared),
        "tolerance": TOLERANCE,
        "stable": all(
            one["stable"] for each in compared.values() for one in each["stores"].values()
        ),
    }


def summarized(rows: Rows) -> dict[str, Any]:
    """One store's figures over all measured batches."""
    seconds = [row["seconds"] for row in rows]
    total_rows = sum(row["rows"] for row in rows)
    cpu = [sum(row["cpu_seconds"].values()) for row in rows]
    return {
        "batches": len(rows),
        "rows": total_rows,
        "batch_seconds": summary(seconds),
        "latency_seconds": weighted_summary(latency_pairs(rows)),
        "rows_per_second": total_rows / sum(seconds),
        "phases_ms": {
            name: statistics.median(row["phases_ms"][name] for row in rows)
            for name in rows[0]["phases_ms"]
        },
        "cpu_seconds_per_batch": statistics.fmean(cpu),
        "cpu_seconds_per_million_rows": sum(cpu) / total_rows * 1e6,
        "gc_millis": sum(row["gc"]["millis"] for row in rows),
        "gc_count": sum(row["gc"]["count"] for row in rows),
        "memory": {
            "heap_peak_bytes": max(row["memory"]["heap_peak_bytes"] for row in rows),
            "off_heap_bytes": max(row["memory"]["off_heap_bytes"] for row in rows),
            "rss_peak_bytes": max((row["memory"]["rss_peak_bytes"] or 0) for row in rows) or None,
            "state_bytes": max(row["state"]["memory_bytes"] for row in rows),
            "of": "the JVM during this store's turns, with the state of all stores in it; "
            "state_bytes is what the store itself reports",
        },
        "state_rows": rows[-1]["state"]["rows"],
        "checkpoint_files_per_batch": statistics.fmean(row["checkpoint"]["files"] for row in rows),
        "line_per_batch": _line(rows),
        "checkpoint_bytes_per_batch": statistics.fmean(row["checkpoint"]["bytes"] for row in rows),
    }


def rounded(value: Any) -> Any:
    """Derived figures, to six digits: more are in no measurement."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def _line(rows: Rows) -> dict[str, float] | None:
    """Operations by kind, bytes and waiting per batch, where the checkpoint is remote."""
    names = {name for row in rows for name in row.get("line", ())}
    return {
        name: statistics.fmean(row["line"].get(name, 0) for row in rows) for name in sorted(names)
    } or None


def _results(agreements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether the stores agreed, over all repeats."""
    compared = [each for each in agreements if each["compared"]]
    return {
        "checked": bool(compared),
        "agree": all(each["agree"] for each in compared) if compared else None,
        "stores": compared[0]["compared"] if compared else [],
        "batches": sum(each["batches"] for each in compared),
        "differences": [each for one in compared for each in one["differences"]],
    }


def write(result: Mapping[str, Any], path: Path) -> None:
    """Writes the file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(compact.text(compact.packed(result)), encoding="utf-8")
    temporary.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A result file; refuses other files."""
    problem = f"{path} cannot be reported on."
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BenchError(
            problem, f"{error.strerror or error}.", "Name a file that `tailrace bench --out` wrote."
        ) from None
    except ValueError:
        raise BenchError(
            problem, "It is not JSON.", "Name a file that `tailrace bench --out` wrote."
        ) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BenchError(
            problem,
            f'It does not say "format": "{FORMAT}", so `tailrace bench` has not written it.',
            "Name a file that `tailrace bench --out` wrote.",
        )
    if found.get("version") not in (1, VERSION):
        raise BenchError(
            problem,
            f"It is of version {found.get('version')}; this tailrace reads 1 and {VERSION}.",
            "Report on it with the tailrace that wrote it, or measure again.",
        )
    missing = [key for key in ("environment", "settings", "runs") if key not in found]
    if missing:
        raise BenchError(
            problem, f"It has no {', '.join(missing)}: it is damaged.", "Measure again."
        )
    return {**renamed(compact.unpacked(found)), "version": VERSION}


_COUNTED = {
    ROCKSDB.name: ROCKSDB_COUNTING,
    ROCKSDB_CHANGELOG.name: ROCKSDB_CHANGELOG_COUNTING,
}


def renamed(result: dict[str, Any]) -> dict[str, Any]:
    """In the first results RocksDB counted its rows; now its name says so where it did."""
    return {**result, "runs": [_renamed_run(run) for run in result["runs"]]}


def _renamed_run(run: Mapping[str, Any]) -> dict[str, Any]:
    new = {
        name: _COUNTED[name].name
        for name, store in run["stores"].items()
        if name in _COUNTED and COUNTING not in store.get("settings", {})
    }
    if not new:
        return dict(run)

    def name_of(old: str) -> str:
        return new.get(old, old)

    def with_names(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        return {key: name_of(value) if key in names else value for key, value in found.items()}

    changed = dict(run)
    changed["stores"] = {
        name_of(name): {**store, "title": _COUNTED[name].title, "note": _COUNTED[name].note}
        if name in new
        else store
        for name, store in run["stores"].items()
    }
    changed["ratios"] = {
        reference: {
            **with_names(compared, ("reference", "reference_at_p99")),
            "chosen_from": [name_of(name) for name in compared["chosen_from"]],
            "stores": {name_of(name): ratio for name, ratio in compared["stores"].items()},
        }
        for reference, compared in run["ratios"].items()
    }
    results = run["results"]
    changed["results"] = {
        **results,
        "stores": [name_of(name) for name in results["stores"]],
        "differences": [with_names(each, ("store", "against")) for each in results["differences"]],
    }
    return changed
