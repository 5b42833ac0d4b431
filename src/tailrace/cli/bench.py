"""Measure workloads on several state stores, side by side, and keep the result in a file."""

# Problem: a run has many sizes, and every one of them can be impossible.
# Answer: everything is parsed and checked into a plan first; only then does Spark start.
# Invariant: bad input ends within a second, with its problem, cause and remedy.

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.cli._numbers import LARGEST, Allowed, check, check_memory, cores

if TYPE_CHECKING:
    from tailrace.bench.plan import Job, Plan, Sizes

ROCKSDB = "rocksdb,rocksdb-changelog,rocksdb-format4,rocksdb-changelog-format4"
"""As an expert sets it; the two of format 4 run joins only."""
STORES = f"{ROCKSDB},hdfs,tailrace,none"
DEFAULT_OUT = "tailrace-bench.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("workloads", nargs="*", metavar="WORKLOAD",
        help="workloads or groups of them; `list` shows all; `misa`, `growth`, `sensitivity`, "
        "`spill`, `restore`, `check`, `prefetch`, `compare` have their own settings")  # fmt: skip
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
    add("--repeat", type=int, help="runs of the whole comparison (default: 1; 3 in restore)")
    add("--before", type=Path, metavar="CHECKOUT",
        help="compare: the other checkout of tailrace (or an engine's jar)")  # fmt: skip
    add("--remote", metavar="rtt=30ms,bandwidth=1gbit", help="a checkpoint behind such a line")
    add("--sizes", help="growth: rows of state, by commas")
    add("--rates", help="misa: records per second, by commas (default: 1500,2500)")
    add("--triggers", help="misa: seconds, by commas (default: 3)")
    add("--scale", type=float, default=1.0, help="misa: divides the triggers (default: 1)")
    add("--cold-io", choices=("buffered", "direct"), default="buffered",
        help="spill: how tailrace reads and writes files of spilled state")  # fmt: skip
    add("--cold-dir", metavar="URI", help="spill: where these files are (remote:///folder: behind "
        "the line of --remote)")  # fmt: skip
    add("--limit", type=int, metavar="MB",
        help="spill: memory of each store, in place of a third of its state; prefetch: of each "
        "contestant, in place of a tenth")  # fmt: skip
    add("--sweep", choices=("skew", "cache", "threshold", "timeline"),
        help="prefetch: one setting at several values, or keys and disk that change")  # fmt: skip
    add("--soak", type=float, metavar="MINUTES",
        help="prefetch: twenty times as much state as memory, for so long")  # fmt: skip
    add("--rocksdb", action="store_true", help="prefetch: against RocksDB with the same memory")
    add("--cores", type=int, help="task slots (default: the machine's cores)")
    add("--memory", default="4g", help="heap of the JVM (default: 4g)")
    add("--seed", type=int, default=42, help="of events and arrivals (default: 42)")
    add("--no-check", action="store_true", help="do not compare the stores' results")
    add("--out", type=Path, default=Path(DEFAULT_OUT), help=f"default: {DEFAULT_OUT}")


ALLOWED = {
    "rows": Allowed(),
    "rate": Allowed(most=1_000_000),
    "batches": Allowed(),
    "warmup": Allowed(least=0),
    "rounds": Allowed(),
    "trigger": Allowed(least=0, most=3600, because="seconds"),
    "keys": Allowed(),
    "limit": Allowed(most=1 << 20, because="megabytes"),
    "partitions": Allowed(most=4096),
    "repeat": Allowed(),
    "sizes": Allowed(),
    "rates": Allowed(most=1_000_000),
    "triggers": Allowed(least=0.001, most=3600, because="seconds"),
    "scale": Allowed(least=0.001, most=1000),
    "soak": Allowed(least=0.01, most=10_000, because="minutes"),
    "seed": Allowed(least=-LARGEST),
}


def checked(arguments: argparse.Namespace) -> argparse.Namespace:
    """The same, with lists of numbers as lists; refuses values out of range."""
    for name, kind in (("sizes", int), ("rates", int), ("triggers", float)):
        text = getattr(arguments, name)
        if isinstance(text, str):
            setattr(arguments, name, _numbers(f"--{name}", text, kind))
    here = Allowed(most=cores(), because="the cores that this machine has for it")
    check(arguments, {**ALLOWED, "cores": here})
    check_memory(arguments.memory)
    return arguments


def run(arguments: argparse.Namespace) -> int:
    if arguments.workloads == ["list"]:
        print(listing())
        return 0
    arguments = checked(arguments)
    if arguments.workloads == ["restore"]:
        return run_restore(arguments)
    if arguments.workloads[:1] == ["check"]:
        return run_check(arguments)
    if arguments.workloads[:1] == ["compare"]:
        return run_compare(arguments)
    if arguments.workloads[:1] == ["prefetch"]:
        return run_prefetch(arguments)
    from tailrace.bench import runner
    from tailrace.bench.plan import check_output
    from tailrace.bench.screen import Screen

    plan = plan_of(arguments)
    check_output(arguments.out)
    screen = Screen(plan.steps)
    screen.say(
        f"{len(plan.jobs)} workload(s) on {', '.join(store.name for store in plan.stores)}: "
        f"{plan.steps} batches, of which {plan.warmup} per store are warm-up."
    )
    return _kept(runner.run(plan, screen), arguments.out)


def run_compare(arguments: argparse.Namespace) -> int:
    """This checkout and another one, each in a process of its own, batch by batch in turns."""
    from tailrace.bench import compare
    from tailrace.bench.plan import check_output
    from tailrace.bench.screen import Screen
    from tailrace.bench.stores import BenchError

    if arguments.before is None:
        raise BenchError(
            "There is nothing to compare with.",
            "--before was not given.",
            "Name a folder with another checkout: git worktree add ../before main, then --before "
            "../before.",
        )
    unused = [name for name in ("stores", "rate", "suite") if getattr(arguments, name) is not None]
    if unused or arguments.baseline:
        raise BenchError(
            f"--{[*unused, 'baseline'][0]} has no meaning in compare.",
            "Its two stores are tailrace, before and now, as fast as possible.",
            "Leave the option out.",
        )
    plan = compare.plan_of(arguments)
    check_output(arguments.out)
    screen = Screen(plan.steps)
    screen.say(f"{len(plan.jobs)} workload(s), before and now: {plan.steps} batches.")
    return _kept(compare.run(arguments, screen), arguments.out)


def run_prefetch(arguments: argparse.Namespace) -> int:
    """Keyed prefetching and its rivals, each in a process of its own, in turns."""
    from tailrace.bench import prefetch, soak, timeline
    from tailrace.bench.plan import check_output
    from tailrace.bench.screen import Screen

    suite: Any = timeline if arguments.sweep == "timeline" else prefetch
    if arguments.soak is not None:
        suite = soak
    plan = suite.plan_of(arguments)
    check_output(arguments.out)
    ends_by_clock = arguments.soak is not None
    # About a batch a second.
    screen = Screen(round(60 * arguments.soak) if ends_by_clock else plan.steps)
    long = f"{arguments.soak:g} minutes" if ends_by_clock else f"{plan.steps} batches"
    names = ", ".join(store.title for store in plan.stores)
    screen.say(f"{len(plan.jobs)} run(s) of {names}: {long}.")
    return _kept(suite.run(arguments, screen), arguments.out)


def _kept(found: dict[str, Any], out: Path) -> int:
    """Writes the result and prints its conclusion; the exit code of the command."""
    from tailrace.bench import result
    from tailrace.bench.report.text import conclusion

    result.write(found, out)
    print(conclusion(found))
    print(f"\nKept in {out}; see it with: tailrace report {out}")
    if found["interrupted"]:
        return 130
    return 1 if any(run["results"]["agree"] is False for run in found["runs"]) else 0


def run_restore(arguments: argparse.Namespace) -> int:
    """The time to come back has no batches to measure, so it has a run of its own."""
    from tailrace.bench import compact, restore
    from tailrace.bench.plan import check_output
    from tailrace.bench.screen import Screen
    from tailrace.bench.stores import BenchError, chosen

    keys = arguments.keys if arguments.keys is not None else 5_000_000
    repeats = _given(arguments.repeat, 3)
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
        stores, keys, rows, repeats, _given(arguments.cores, cores()), arguments.memory, Screen(1)
    )
    arguments.out.write_text(compact.text(found), encoding="utf-8")
    print(restore.conclusion(found))
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Results, not times: every workload against its reference."""
    from tailrace.bench import checking
    from tailrace.bench.plan import workloads
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
    failed = checking.run(found, stores, events, _given(arguments.cores, cores()), arguments.memory)
    print(f"{len(found) * len(stores) - failed} equal, {failed} different")
    return 1 if failed else 0


SPECIAL = ("misa", "growth", "sensitivity", "spill")


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan of a command line; every mistake in it is reported here."""
    from tailrace.bench.plan import ALONE, SUITE, Plan
    from tailrace.bench.remote import Remote
    from tailrace.bench.stores import BenchError, chosen

    names = [name.lower() for name in arguments.workloads]
    special = next((name for name in SPECIAL if names == [name]), None)
    if special is None and arguments.suite in ("misa", "growth", "spill"):
        special = arguments.suite
    stores = arguments.stores
    baselines: list[str] = list(arguments.baseline)
    remote = arguments.remote
    partitions = cores()
    if special == "misa":
        from tailrace.bench import misa

        stores = stores or f"{ROCKSDB},hdfs,tailrace"
        baselines = baselines or ["zstream", "async-checkpoint"]
        remote = remote or misa.REMOTE
        partitions = misa.PARTITIONS
    if special == "growth":
        stores = stores or "rocksdb,rocksdb-changelog,tailrace,none"
    if special in ("sensitivity", "spill"):
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
        repeat=_given(arguments.repeat, 1),
        partitions=_given(arguments.partitions, partitions),
        cores=_given(arguments.cores, cores()),
        memory=arguments.memory,
        seed=arguments.seed,
        remote=Remote.parse(remote) if remote else None,
        check=not arguments.no_check,
        suite=special or arguments.suite,
    )


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


def _jobs(arguments: argparse.Namespace, special: str | None, usual: Sizes) -> tuple[Job, ...]:
    from tailrace.bench import growth, misa, sensitivity, spill
    from tailrace.bench.plan import job, option_pairs, workloads

    options = option_pairs(arguments.option)
    if special == "misa":
        given: dict[str, Any] = {}
        if arguments.suite:
            given["names"] = [one.name for one in workloads(arguments.workloads, arguments.suite)]
        if arguments.rates or arguments.rate:
            given["rates"] = arguments.rates or [arguments.rate]
        if arguments.triggers or arguments.trigger:
            given["triggers"] = arguments.triggers or [arguments.trigger]
        return misa.jobs(options, scale=arguments.scale, **given)
    if special == "growth":
        return growth.jobs(
            options, arguments.sizes or growth.SIZES, _given(arguments.rows, growth.ROWS)
        )
    if special == "sensitivity":
        return sensitivity.jobs(options, *([arguments.rows] if arguments.rows else []))
    if special == "spill":
        named = [] if arguments.workloads == ["spill"] else arguments.workloads
        names = [one.name for one in workloads(named, "spill")]
        return spill.jobs(
            names, options, arguments.rows, arguments.seed,
            contestants=_contestants(arguments.stores), cold_io=arguments.cold_io,
            cold_dir=arguments.cold_dir, megabytes=arguments.limit,
        )  # fmt: skip
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


def _contestants(stores: str | None) -> int:
    """How many of one kind share the memory that the process has for that kind."""
    from tailrace.bench.stores import STORES

    known = [STORES[name.strip()] for name in (stores or "").split(",") if name.strip() in STORES]
    return max(1, sum(store.own for store in known), sum(store.rocksdb for store in known))


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
