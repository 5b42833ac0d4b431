"""State of twenty times its memory, for a while: `tailrace bench prefetch --soak MINUTES`.

Problem: memory that grows by a little with every batch shows in no run of some batches, nor does
a row that is lost once in a thousand batches.
Answer: ReadWrite with a twentieth of its state in memory, as fast as it goes, beside the same query
without a limit, in turns; both in a process of its own. The resident memory of the first is drawn.
Invariant: the results of every batch of both are compared, those that are not kept in the file,
too.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tailrace
from tailrace.bench import contest, prefetch, runner
from tailrace.bench.plan import MOST_ROWS, Job, Plan
from tailrace.bench.rivals import KEYED
from tailrace.bench.screen import Screen
from tailrace.options import CONF_PREFIX

SUITE = "prefetch-soak"
QUERY = prefetch.Query("readwrite", 2_000_000, 163, rows=10_000)
TIMES = 20
KEPT = 4
"""Of so many batches one is kept in the file, which would be too large."""
UNLIMITED = dataclasses.replace(
    KEYED,
    name="tailrace-unlimited",
    title="without a limit",
    note="the same query with all of its state in memory",
    confs={**KEYED.confs, CONF_PREFIX + "memoryLimit": "8g"},
)
FLAT = 1.1
"""Memory is flat if its median in the last quarter is at most so many times that of the second."""


def contests(arguments: argparse.Namespace) -> list[tuple[Job, Plan]]:
    """The one query; it ends by the clock."""
    keys = arguments.keys or QUERY.keys
    limit = arguments.limit or max(
        prefetch.LEAST_MEGABYTES, keys * QUERY.record_bytes // TIMES // 1_000_000
    )
    sized = argparse.Namespace(**{**vars(arguments), "limit": limit, "keys": keys})
    job = prefetch.job_of(QUERY, sized, {})
    sizes = prefetch.sizes(arguments, prefetch.SIZES) | {"batches": MOST_ROWS, "rounds": 1}
    return [(job, Plan((job,), (KEYED, UNLIMITED), suite=SUITE, **sizes))]


def plan_of(arguments: argparse.Namespace) -> Plan:
    return contests(arguments)[0][1]


def settings(plan: Plan) -> dict[str, str]:
    return runner.settings(plan)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    sides = [(store, tailrace.confs()) for store in (KEYED, UNLIMITED)]
    how = contest.How(turn=KEPT, kept=KEPT, minutes=arguments.soak)
    document, _ = contest.run(sys.modules[__name__], arguments, sides, how, screen)
    document["settings"] |= {
        "batches": max(run["results"]["batches"] for run in document["runs"]),
        "interleaving": f"a process for each, in turns of {KEPT} batches, for {arguments.soak:g} "
        f"minutes; one batch of {KEPT} is in this file",
        "processes": len(sides),
        "minutes": arguments.soak,
    }
    return document


def megabytes(run: Mapping[str, Any], name: str) -> list[float]:
    """Peak resident memory of the process in each batch that was kept."""
    batches = run["stores"][name]["batches"]
    return [(row["memory"]["rss_peak_bytes"] or 0) / 1e6 for row in batches]


def flat(values: Sequence[float]) -> tuple[float, float, bool]:
    """The median of the second quarter, that of the last one, and whether it stayed."""
    quarter = max(1, len(values) // 4)
    before = statistics.median(values[quarter : 2 * quarter] or values)
    after = statistics.median(values[-quarter:])
    return before, after, after <= FLAT * before
