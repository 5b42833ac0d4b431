"""One setting of the prefetch suite at several values: `tailrace bench prefetch --sweep NAME`.

Problem: a contestant that is ahead at one skew, one size of the cache or one threshold may be
behind at another; Keyed Prefetching's figures 7 to 9 vary all three.
Answer: the query once per value, all contestants in turns, with less state than the suite has.
Invariant: between two runs of a plot nothing differs but the setting on its axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tailrace.bench.events import changed
from tailrace.bench.plan import Job, Sizes

KEYS = 300_000
"""Of a sweep, where --keys does not say it."""
SIZES = Sizes(rows=20_000, batches=12, warmup=4, rounds=3)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A setting, and its values."""

    parameter: str
    """Its name in a run's parameters."""
    queries: tuple[str, ...]
    values: Sequence[int]
    at: Callable[[Job, int], Job]
    stores: tuple[str, ...] | None = None
    """The contestants; None: all."""


def _skewed(job: Job, percent: int) -> Job:
    return dataclasses.replace(job, events=changed(job.events, hot_auction_share=percent / 100))


def _in_memory(job: Job, megabytes: int) -> Job:
    return dataclasses.replace(job, options={**job.options, "memory_limit": f"{megabytes}m"})


def _above(job: Job, threshold: int) -> Job:
    return dataclasses.replace(job, options={**job.options, "hint_threshold": threshold})


SWEEPS = {
    "skew": Sweep("percent_hot", ("q13-state",), (0, 25, 50, 75, 100), _skewed),
    "cache": Sweep("MB_of_memory", ("q13-state", "q20"), (4, 8, 16), _in_memory),
    "threshold": Sweep(
        "hint_threshold", ("q13-state",), (2, 8, 24, 255), _above, ("async-io", "tailrace")
    ),
}


def jobs(sweep: Sweep, job_of: Callable[[str], Job]) -> list[Job]:
    """One for each query and value."""
    found = []
    for name in sweep.queries:
        made = job_of(name)
        for value in sweep.values:
            job = sweep.at(made, value)
            memory = str(job.options["memory_limit"]).removesuffix("m") + " MB of memory"
            parameters: dict[str, int | str] = {sweep.parameter: value}
            if sweep.parameter != "MB_of_memory":
                parameters["memory"] = memory
            found.append(dataclasses.replace(job, parameters=parameters))
    return found
