"""A query whose keys and whose disk change while it runs: `bench prefetch --sweep timeline`.

Problem: the controller that chooses where hints are taken is for changes, and a run in which
nothing changes does not show it; Keyed Prefetching's figure 10 has two of them.
Answer: state on a file system that is a round trip away. After a third of the batches an operator
begins to drop most rows, so that hints from before it are of keys that nobody looks up. After two
thirds the file system comes nearer. After every batch the controller's choice is noted.
Invariant: what is drawn is of the batches that were run, one contestant, none left out.

One difference to the paper, where an operator begins to change keys: hints here are computed by the
plan's own expressions, so they are right wherever they are taken, and what an operator can still
do to them is to drop their rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import tailrace
from tailrace.bench import contest, prefetch, runner
from tailrace.bench.events import Source, changed
from tailrace.bench.events.base import START_MICROS, option
from tailrace.bench.growth import PreloadedKeys
from tailrace.bench.plan import Job, Plan
from tailrace.bench.remote import Remote
from tailrace.bench.rivals import KEYED
from tailrace.bench.screen import Screen
from tailrace.bench.side import Side
from tailrace.bench.workloads import WORKLOADS, QueryOptions
from tailrace.bench.workloads.recorded import Recorded, Row

SUITE = "prefetch-timeline"
KEYS = 800_000
ROWS = 10_000
BATCHES = 60
MEMORY = 16
FAR = Remote.parse("rtt=4ms")
NEAR_MILLIS = 0.2
KEPT = 5
"""Of so many rows one stays when the others are dropped."""
STORE = dataclasses.replace(KEYED, near=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChangingKeys(PreloadedKeys):
    """Keyed events of which most are dropped from one on, by the query."""

    dropped_from: int = option(1_000_000, "The first event that may be dropped.")


def _changing(source: Source, query: QueryOptions) -> DataFrame:
    options = source.options
    assert isinstance(options, ChangingKeys)
    micros = START_MICROS + options.dropped_from * 1_000_000 // options.rate
    stays = (F.col("time") < F.timestamp_micros(F.lit(micros))) | (F.col("value") % KEPT == 0)
    return WORKLOADS["update"].build(_Filtered(source, stays), query)  # type: ignore[arg-type]


class _Filtered:
    """A source whose rows pass a filter, which is not moved to the source."""

    def __init__(self, source: Source, condition: Any) -> None:
        self._source = source
        self._condition = condition

    def table(self, name: str) -> DataFrame:
        return self._source.table(name).where(self._condition)


def _expected(recorded: Recorded, query: QueryOptions) -> Iterable[Row]:  # noqa: ARG001
    options = recorded.source.options
    assert isinstance(options, ChangingKeys)
    until = START_MICROS + options.dropped_from * 1_000_000 // options.rate
    found: dict[int, tuple[int, int]] = {}
    for time, key, value in recorded.rows("event", "time", "key", "value"):
        if time < until or value % KEPT == 0:
            count, highest = found.get(key, (0, value))
            found[key] = (count + 1, max(highest, value))
    return ((key, *rest) for key, rest in found.items())


CHANGING = dataclasses.replace(
    WORKLOADS["update"],
    name="timeline",
    title="Update behind an operator that begins to drop rows, and state that comes nearer",
    events=ChangingKeys(),
    build=_changing,
    reference=_expected,
)


def contests(arguments: argparse.Namespace) -> list[tuple[Job, Plan]]:
    """The one query."""
    keys, rows = arguments.keys or KEYS, arguments.rows or ROWS
    batches = arguments.batches or BATCHES
    warmup = 2 if arguments.warmup is None else int(arguments.warmup)
    first, second = batches // 3, 2 * batches // 3
    events = changed(
        CHANGING.events, keys=keys, rate=rows, seed=arguments.seed,
        dropped_from=keys + (warmup + first) * rows,
    )  # fmt: skip
    limit = arguments.limit or max(MEMORY, keys * MEMORY // KEYS)
    job = Job(
        CHANGING,
        events,
        CHANGING.query,
        rows,
        preload=keys,
        preload_batch=max(1, limit * 1_000_000 // 65 // prefetch.PRELOADS),
        parameters={"memory": f"{limit} MB of memory", "dropped_from": first, "near_from": second},
        options={"memory_limit": f"{limit}m", "cold_dir": "remote://{folder}"},
    )
    return [(job, _plan(job, arguments, batches, warmup))]


def _plan(job: Job, arguments: argparse.Namespace, batches: int, warmup: int) -> Plan:
    sizes = prefetch.sizes(arguments, prefetch.SIZES)
    sizes |= {"batches": batches, "warmup": warmup, "rounds": 1}
    return Plan((job,), (STORE,), suite=SUITE, remote=FAR, **sizes)


def plan_of(arguments: argparse.Namespace) -> Plan:
    return contests(arguments)[0][1]


def settings(plan: Plan) -> dict[str, str]:
    return runner.settings(plan)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    suite = sys.modules[__name__]
    sides = [(STORE, tailrace.confs())]

    def after(side: Side, done: int, row: dict[str, Any]) -> None:
        row["place"], row["why"] = side.ask("place")
        if done == contests(arguments)[0][0].parameters["near_from"]:
            side.ask("moves", NEAR_MILLIS)

    document, _ = contest.run(suite, arguments, sides, contest.How(after=after), screen)
    document["settings"] |= {"interleaving": "one contestant", "processes": 1}
    return document
