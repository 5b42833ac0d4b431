"""Measure workloads on several state stores, side by side, and keep the result in a file."""

# Problem: a run has many sizes, and every one of them can be impossible.
# Answer: everything is parsed and checked into a plan first; only then does Spark start.
# Invariant: bad input ends within a second, with its problem, cause and remedy.

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.bench.plan import Job, Plan, Sizes

STORES = "rocksdb,rocksdb-changelog,hdfs,tailrace,none"
DEFAULT_OUT = "tailrace-bench.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("workloads", nargs="*", metavar="WORKLOAD",
        help="workloads or groups of them; `list` shows all; `misa`, `growth`, `sensitivity`, "
        "`restore` "
        "and `check` have their own settings")  # fmt: skip
    add("--suite", help="the workloads of a suite, or those of it that were named")
    add("--stores", default=None, help=f"in this order, by commas (default: {STORES})")
    add("--baseline", action="append", default=[], metavar="NAME",
        help="zstream (a deadline bounds a batch's size) or async-checkpoint; can be given "
        "twice")  # fmt: skip
    add("--rows", type=int, help="rows per batch, as fast as possible (default: the workload's; "
        "50000 in a suite)")  # fmt: skip
    add("--rate", type=int, help="arrivals per second instead: an open loop, for latency")
    add("--batches", type=int,
        help="measured batches per store and repeat (default: 20; 8 in a suite)")  # fmt: skip
    add("--warmup", type=int,
        help="batches per store that are run first and cut (default: 5; 4 in a suite)")  # fmt: skip
    add("--rounds", type=int,
        help="turns into which the batches are cut (default: 5; 2 in a suite)")  # fmt: skip
    add("--trigger", type=float, help="seconds between batches of an open loop (default: 1)")
    add("--keys", type=int, help="different keys, where the workload has a choice")
    add("--partitions", type=int, help="shuffle partitions (default: the cores; 8 in misa)")
    add("--option", action="append", default=[], metavar="KEY=VALUE",
        help="an option of the workload's events or query; can be given often")  # fmt: skip
    add("--repeat", type=int, default=1, help="runs of the whole comparison (default: 1)")
    add("--remote", metavar="rtt=30ms,bandwidth=1gbit", help="a checkpoint behind such a line")
    add("--sizes", help="growth: rows of state, by commas")
    add("--rates", help="misa: records per second, by commas (default: 1500,2500)")
    add("--triggers", help="misa: seconds, by commas (default: 3)")
    add("--scale", type=float, default=1.0, help="misa: divides the triggers (default: 1)")
    add("--cores", type=int, help="task slots (default: the machine's cores)")
    add("--memory", default="4g", help="heap of the JVM (default: 4g)")
    add("--seed", type=int, default=42, help="of events and arrivals (default: 42)")
    add("--no-check", action="store_true", help="do not compare the stores' results")
    add("--out", type=Path, default=Path(DEFAULT_OUT), help=f"default: {DEFAULT_OUT}")


def run(arguments: argparse.Namespace) -> int:
    if arguments.workloads == ["list"]:
        print(listing())
        return 0
    if arguments.workloads == ["restore"]:
        return run_restore(arguments)
    if arguments.workloads[:1] == ["check"]:
        return run_check(arguments)
    from tailrace.bench import result, runner
    from tailrace.bench.plan import check_output
    from tailrace.bench.report.text import conclusion
    from tailrace.bench.screen import Screen

    plan = plan_of(arguments)
    check_output(arguments.out)
    screen = Screen(plan.steps)
    screen.say(
        f"{len(plan.jobs)} workload(s) on {', '.join(store.name for store in plan.stores)}: "
        f"{plan.steps} batches, of which {plan.warmup} per store are warm-up."
    )
    found = runner.run(plan, screen)
    result.write(found, arguments.out)
    print(conclusion(found))
    print(f"\nKept in {arguments.out}; see it with: tailrace report {arguments.out}")
    if found["interrupted"]:
        return 130
    return 1 if any(run["results"]["agree"] is False for run in found["runs"]) else 0


def run_restore(arguments: argparse.Namespace) -> int:
    """The time to come back has no batches to measure, so it has a run of its own."""
    import json

    from tailrace.bench import restore
    from tailrace.bench.plan import check_output, cores
    from tailrace.bench.screen import Screen
    from tailrace.bench.stores import BenchError, chosen

    keys = arguments.keys if arguments.keys is not None else 5_000_000
    repeats = arguments.repeat if arguments.repeat > 1 else 3
    rows = arguments.rows if arguments.rows is not None else restore.SMALLEST
    if keys < restore.SMALLEST or rows < 1:
        raise BenchError(
            f"--keys {keys} or --rows {rows} is too few for a restore.",
            f"The state that is taken for empty has {restore.SMALLEST:,} keys itself.",
            "Give a state worth restoring, such as --keys 5000000 --rows 1000.",
        )
    names = arguments.stores or "rocksdb,rocksdb-changelog,hdfs,tailrace"
    stores = chosen([name.strip() for name in names.split(",") if name.strip()], [])
    check_output(arguments.out)
    found = restore.run(
        stores, keys, rows, repeats, arguments.cores or cores(), arguments.memory, Screen(1)
    )
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(restore.conclusion(found))
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Results, not times: every workload against its reference."""
    from tailrace.bench import checking
    from tailrace.bench.plan import cores, workloads
    from tailrace.bench.stores import BenchError, chosen
    from tailrace.bench.workloads import WORKLOADS

    events = arguments.rows if arguments.rows is not None else checking.EVENTS
    if events < checking.BATCHES:
        raise BenchError(
            f"--rows {events} is too few to check.",
            f"They are cut into {checking.BATCHES} batches.",
            "Give at least a few thousand.",
        )
    found = workloads(arguments.workloads[1:] or list(WORKLOADS), arguments.suite)
    stores = chosen((arguments.stores or "rocksdb,tailrace").split(","), [])
    failed = checking.run(found, stores, events, arguments.cores or cores(), arguments.memory)
    print(f"{len(found) * len(stores) - failed} equal, {failed} different")
    return 1 if failed else 0


SPECIAL = ("misa", "growth", "sensitivity")


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan of a command line; everything that can be wrong with it is told here."""
    from tailrace.bench.plan import ALONE, SUITE, Plan, cores
    from tailrace.bench.remote import Remote
    from tailrace.bench.stores import BenchError, chosen

    names = [name.lower() for name in arguments.workloads]
    special = next((name for name in SPECIAL if names == [name]), None)
    if special is None and arguments.suite in ("misa", "growth"):
        special = arguments.suite
    stores = arguments.stores
    baselines: list[str] = list(arguments.baseline)
    remote = arguments.remote
    partitions = cores()
    if special == "misa":
        from tailrace.bench import misa

        stores = stores or "rocksdb,rocksdb-changelog,tailrace"
        baselines = baselines or ["zstream", "async-checkpoint"]
        remote = remote or misa.REMOTE
        partitions = misa.PARTITIONS
    if special == "growth":
        stores = stores or "rocksdb-changelog,tailrace,none"
    if special == "sensitivity":
        stores = stores or "tailrace"
    if arguments.rows is not None and arguments.rate is not None:
        raise BenchError(
            "--rows and --rate were both given.",
            "--rows is for a closed loop (as fast as possible), --rate for an open one, in which "
            "the arrivals decide how many rows a batch has.",
            "Leave one of them out.",
        )
    if arguments.rate is None and arguments.trigger is not None and special != "misa":
        raise BenchError(
            "--trigger was given without --rate.",
            "In a closed loop a batch starts when the one before it is over.",
            "Add --rate for an open loop, or leave --trigger out.",
        )
    usual = SUITE if arguments.suite and special is None else ALONE
    batches = _given(arguments.batches, usual.batches)
    rounds = _given(arguments.rounds, usual.rounds)
    return Plan(
        jobs=_jobs(arguments, special, usual),
        stores=chosen([n.strip() for n in (stores or STORES).split(",") if n.strip()], baselines),
        batches=batches,
        warmup=_given(arguments.warmup, usual.warmup),
        rounds=min(rounds, batches) if batches > 0 else rounds,
        repeat=arguments.repeat,
        partitions=_given(arguments.partitions, partitions),
        cores=arguments.cores or cores(),
        memory=arguments.memory,
        seed=arguments.seed,
        remote=Remote.parse(remote) if remote else None,
        check=not arguments.no_check,
        suite=special or arguments.suite,
    )


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


def _jobs(arguments: argparse.Namespace, special: str | None, usual: Sizes) -> tuple[Job, ...]:
    from tailrace.bench import growth, misa, sensitivity
    from tailrace.bench.plan import job, option_pairs, workloads

    options = option_pairs(arguments.option)
    if special == "misa":
        given: dict[str, Any] = {}
        if arguments.suite:
            given["names"] = [one.name for one in workloads(arguments.workloads, arguments.suite)]
        if arguments.rates or arguments.rate:
            given["rates"] = _numbers("--rates", arguments.rates or str(arguments.rate))
        if arguments.triggers or arguments.trigger:
            text = arguments.triggers or str(arguments.trigger)
            given["triggers"] = [float(value) for value in _numbers("--triggers", text, float)]
        return misa.jobs(options, scale=arguments.scale, **given)
    if special == "growth":
        sizes = _numbers("--sizes", arguments.sizes) if arguments.sizes else growth.SIZES
        return growth.jobs(options, sizes, arguments.rows or growth.ROWS)
    if special == "sensitivity":
        return sensitivity.jobs(options, *([arguments.rows] if arguments.rows else []))
    trigger = arguments.trigger if arguments.trigger is not None else 1.0
    rows = arguments.rows
    if rows is None and arguments.rate is None:
        rows = usual.rows
    return tuple(
        dataclasses.replace(made, trigger=trigger if arguments.rate is not None else 0.0)
        for made in (
            job(workload, options, rows, arguments.rate, trigger, arguments.keys, arguments.seed)
            for workload in workloads(arguments.workloads, arguments.suite)
        )
    )  # fmt: skip


def _numbers(argument: str, text: str, kind: type[Any] = int) -> list[Any]:
    from tailrace.bench.stores import BenchError

    try:
        return [kind(part.strip().replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise BenchError(
            f"{argument} does not understand {text!r}.",
            "It takes numbers separated by commas.",
            f"Write it like {argument} 1500,2500.",
        ) from None


def listing() -> str:
    """Workloads, suites and stores."""
    from tailrace.bench.stores import BASELINES, STORES
    from tailrace.bench.workloads import SUITES, WORKLOADS

    lines = ["Workloads"]
    lines += [f"  {w.name:<14} {w.title} ({w.pattern})" for w in WORKLOADS.values()]
    lines += ["", "Suites"]
    lines += [f"  {name:<14} {', '.join(members)}" for name, members in SUITES.items()]
    lines += ["", "Stores (--stores)"]
    lines += [f"  {store.name:<18} {store.note}" for store in STORES.values()]
    lines += ["", "Baselines (--baseline)"]
    lines += [f"  {store.name:<18} {store.note}" for store in BASELINES.values()]
    return "\n".join(lines)
