"""The plan of a run, checked before Spark starts.

Problem: a misspelt workload or an output folder that does not exist should not show after ten
minutes of measuring.
Answer: a `Plan` holds everything a run needs, and is complete and checked before Spark starts.
Invariant: a plan that exists can be run; only the machine can still fail it.
"""

from __future__ import annotations

import dataclasses
import difflib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace.bench.events import EventOptions, parsed
from tailrace.bench.remote import Remote
from tailrace.bench.stores import BenchError, Store
from tailrace.bench.workloads import SUITES, WORKLOADS, Pattern, QueryOptions, Workload

MOST_ROWS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is run where the command line does not say it."""

    rows: int | None
    """Per batch. None: as the workload has it."""
    batches: int
    warmup: int
    rounds: int


ALONE = Sizes(rows=None, batches=20, warmup=5, rounds=5)
SUITE = Sizes(rows=50_000, batches=8, warmup=4, rounds=2)
"""Eight queries on five stores (a join on seven) in some ten minutes on two cores.

At NEXMark's rate 50,000 rows are 5 s, so every second batch closes a window of 10 s: a turn has an
even number of batches, or its median would depend on where it began.
"""


@dataclasses.dataclass(frozen=True)
class Job:
    """One workload with all its sizes."""

    workload: Workload
    events: EventOptions
    query: QueryOptions
    rows: int
    """Per batch in a closed loop; in an open loop the rate and the trigger decide."""
    rate: int | None = None
    """Arrivals per second. None: a closed loop."""
    trigger: float = 0.0
    spread: float = 0.0
    """Standard deviation of the arrivals in a second, as a share of the rate."""
    preload: int = 0
    """Rows that go through before anything counts."""
    preload_batch: int | None = None
    """How many of them at a time. None: as many as fit surely."""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What tells this job from others of the same workload."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of tailrace with which it runs here, besides its defaults."""

    @property
    def loop(self) -> str:
        return "closed" if self.rate is None else "open"

    @property
    def label(self) -> str:
        return label(self.workload.name, self.parameters)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything about a run."""

    jobs: tuple[Job, ...]
    stores: tuple[Store, ...]
    batches: int = 20
    """Measured batches of each store in each repeat."""
    warmup: int = 5
    rounds: int = 5
    repeat: int = 1
    partitions: int = 2
    cores: int = 2
    memory: str = "4g"
    seed: int = 42
    remote: Remote | None = None
    check: bool = True
    """Whether the stores' results are compared, by a digest of every batch."""
    suite: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("batches", 1), ("warmup", 0), ("rounds", 1), ("repeat", 1),
                            ("cores", 1)):  # fmt: skip
            value = getattr(self, name)
            if value < least:
                raise _impossible(name, value, f"at least {least}")
        if self.batches < self.rounds:
            raise _impossible(
                "batches", self.batches, f"at least one for each of {self.rounds} rounds (--rounds)"
            )
        if not 1 <= self.partitions <= 4096:
            raise _impossible("partitions", self.partitions, "from 1 to 4096")
        for job in self.jobs:
            if not self.stores_of(job):
                raise BenchError(
                    f"There is no store to run {job.workload.name} on.",
                    f"{', '.join(store.name for store in self.stores)}: for joins only, and "
                    f"{job.workload.name} has none.",
                    "Name another store with --stores.",
                )
            if not 1 <= job.rows <= MOST_ROWS:
                raise _impossible("rows", job.rows, f"from 1 to {MOST_ROWS}")
            if job.rate is not None and job.rate < 1:
                raise _impossible("rate", job.rate, "at least 1")
            if job.trigger < 0 or job.trigger > 3600:
                raise _impossible("trigger", job.trigger, "from 0 to 3600 seconds")

    def stores_of(self, job: Job) -> tuple[Store, ...]:
        """The stores that a job runs on: those for joins have nothing to show elsewhere."""
        is_join = Pattern.JOIN in job.workload.patterns
        return tuple(store for store in self.stores if is_join or not store.joins)

    @property
    def steps(self) -> int:
        """How many batches will be run."""
        queries = sum(len(self.stores_of(job)) for job in self.jobs)
        return queries * self.repeat * (self.warmup + self.batches)


def label(workload: str, parameters: Mapping[str, Any]) -> str:
    """A workload, and the parameters that distinguish this run of it."""
    extra = ", ".join(
        value if isinstance(value, str) else f"{value:,} {name.replace('_', ' ')}"
        for name, value in parameters.items()
    )
    return workload + (f" ({extra})" if extra else "")


def workloads(names: Sequence[str], suite: str | None) -> tuple[Workload, ...]:
    """Workloads by name, by group (nexmark) and by suite; a suite narrows the named ones."""
    found: list[str] = []
    for name in names:
        if name.lower() in WORKLOADS:
            found.append(name.lower())
        elif name.lower() in SUITES:
            found += SUITES[name.lower()]
        else:
            raise _unknown("workload", name, [*WORKLOADS, *SUITES])
    if suite is not None:
        if suite not in SUITES:
            raise _unknown("suite", suite, list(SUITES))
        found = [name for name in SUITES[suite] if name in found or not names]
    if not found:
        raise BenchError(
            "There is no workload to run.",
            f"No workload was named, or none of them is in the suite {suite}."
            if names or suite
            else "No workload was named.",
            "Name some: `tailrace bench list` shows them all.",
        )
    return tuple(WORKLOADS[name] for name in dict.fromkeys(found))


def job(
    workload: Workload,
    options: Mapping[str, str],
    rows: int | None = None,
    rate: int | None = None,
    trigger: float = 0.0,
    keys: int | None = None,
    seed: int | None = None,
) -> Job:
    """One workload with the options of a command line: for its events or for its query."""
    query_names = {field.name for field in dataclasses.fields(workload.query)}
    for_query = {name: text for name, text in options.items() if name in query_names}
    for_events = {name: text for name, text in options.items() if name not in query_names}
    size = rows if rows is not None else workload.rows_per_batch
    fixed: dict[str, Any] = {}
    if rate is not None:
        fixed["rate"] = rate  # event time passes as time does
    if seed is not None:
        fixed["seed"] = seed
    if keys is not None:
        if "keys" not in {field.name for field in dataclasses.fields(workload.events)}:
            raise BenchError(
                f"{workload.name} has no number of keys to choose.",
                f"Its events follow from {', '.join(_names(workload.events))}.",
                "Leave --keys out, or use --option with one of these.",
            )
        fixed["keys"] = keys
    parsed_events = parsed(workload.events, for_events)
    chosen = {name: getattr(parsed_events, name) for name in for_events}
    events = workload.configured(size, **(fixed | chosen))
    query = workload.query
    if for_query:
        query = dataclasses.replace(query, **{n: _whole(n, t) for n, t in for_query.items()})
    return Job(workload, events, query, size, rate, trigger)


def option_pairs(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` as --option has it."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BenchError(
                f"--option does not understand {text!r}.",
                "An option is a name and a value.",
                "Write it like --option disorder=100.",
            )
        pairs[name.strip()] = value.strip()
    return pairs


def check_output(path: Path) -> None:
    """Fails now if the result could not be written later."""
    folder = path.parent if str(path.parent) else Path()
    problem = f"The result cannot be written to {path}."
    if path.is_dir():
        raise BenchError(problem, "It is a folder.", "Name a file: --out result.json")
    if not folder.is_dir():
        raise BenchError(
            problem, f"There is no folder {folder}.", "Create it, or name another with --out."
        )
    try:
        if path.exists():
            with path.open("a"):
                pass
        else:
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise BenchError(
            problem, f"{error.strerror or error}.", "Name a file that can be written with --out."
        ) from None


def _names(options: EventOptions) -> list[str]:
    return [field.name for field in dataclasses.fields(options)]


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BenchError(
            f"Option {name} does not take the value {text!r}.",
            "It is a whole number (of seconds, where it is a time).",
            f"Write it like --option {name}=10.",
        ) from None


def _impossible(name: str, value: object, allowed: str) -> BenchError:
    return BenchError(
        f"--{name} cannot be {value}.",
        f"It is {allowed}.",
        "Choose such a number, or leave it out.",
    )


def _unknown(kind: str, name: str, known: list[str]) -> BenchError:
    closest = difflib.get_close_matches(name.lower(), known, n=1)
    return BenchError(
        f"There is no {kind} {name!r}.",
        f"There are: {', '.join(known)}.",
        f"Did you mean {closest[0]}?" if closest else "`tailrace bench list` describes them.",
    )
