"""This checkout against another one: `tailrace bench compare WORKLOAD... --before CHECKOUT`.

Problem: "not slower than before" cannot be shown by two runs an hour apart, and two builds of the
engine cannot be stores of one run.
Answer: two processes, one per side, each with its own JVM. They run a batch in turn, A B B A, so
that other work of the machine hits both alike.
Invariant: both sides do the same work (their results are compared), and at most one runs a batch.

One run of a workload:
1. Both sides start its query.
2. Warm up, in turns; these batches are discarded.
3. Rounds: one batch of one side, one of the other; which is first changes with every pair.
4. Both sides end the query; their results are compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import tailrace
from tailrace import _build
from tailrace.bench import result, runner
from tailrace.bench.meters import OtherWork
from tailrace.bench.plan import Job, Plan, Sizes, job, option_pairs, workloads
from tailrace.bench.remote import Remote
from tailrace.bench.screen import Screen
from tailrace.bench.side import Side
from tailrace.bench.stores import TAILRACE, TAILRACE_BEFORE, BenchError
from tailrace.cli._folder import deaf, terminable
from tailrace.errors import TailraceError
from tailrace.session import JARS_CONF

REMOTE = "remote"
"""The name of the update workload with its checkpoint behind a line."""
LINE = "rtt=30ms,bandwidth=1gbit"
DEFAULT = ("update", "window-append", "sessions", "dedup", "join", REMOTE)
SIZES = Sizes(rows=None, batches=30, warmup=12, rounds=5)
"""After 12 batches the windows of the workloads close and their state has its size."""
INTERLEAVING = (
    "two processes, one per side, each with its own JVM; one batch of one side, then one of the "
    "other, and who is first changes with every pair"
)


def contests(arguments: argparse.Namespace) -> list[tuple[Job, Plan]]:
    """Each workload with the plan that it runs by."""
    named = [part for text in arguments.workloads[1:] for part in text.split(",") if part]
    names = [name.lower() for name in named or DEFAULT]
    line = Remote.parse(arguments.remote or LINE)
    sizes = _sizes(arguments)
    found = []
    for name in dict.fromkeys(names):
        known = ("update",) if name == REMOTE else tuple(w.name for w in workloads([name], None))
        for workload in known:
            made = _job(arguments, workload)
            if name == REMOTE:
                made = dataclasses.replace(made, parameters={"checkpoint": "remote checkpoint"})
            far = line if name == REMOTE or arguments.remote else None
            found.append((made, Plan((made,), (TAILRACE_BEFORE, TAILRACE), remote=far, **sizes)))
    return found


def plan_of(arguments: argparse.Namespace) -> Plan:
    """All workloads in one plan, with the settings that they have in common."""
    found = contests(arguments)
    lines = {plan.remote for _, plan in found}
    return dataclasses.replace(
        found[0][1],
        jobs=tuple(made for made, _ in found),
        remote=lines.pop() if len(lines) == 1 else None,
        suite="compare",
    )


def settings(plan: Plan) -> dict[str, str]:
    """Of the session of a side; a line that no workload uses costs nothing."""
    return runner.settings(dataclasses.replace(plan, remote=plan.remote or Remote.parse(LINE)))


def _sizes(arguments: argparse.Namespace) -> dict[str, Any]:
    from tailrace.cli._numbers import cores

    def given(name: str, default: int) -> int:
        value = getattr(arguments, name)
        return default if value is None else int(value)

    batches = given("batches", SIZES.batches)
    return {
        "batches": batches,
        "warmup": given("warmup", SIZES.warmup),
        "rounds": min(given("rounds", SIZES.rounds), batches),
        "repeat": given("repeat", 1),
        "partitions": given("partitions", cores()),
        "cores": given("cores", cores()),
        "memory": arguments.memory,
        "seed": arguments.seed,
        "check": not arguments.no_check,
    }


def _job(arguments: argparse.Namespace, name: str) -> Job:
    (workload,) = workloads([name], None)
    has_keys = "keys" in {field.name for field in dataclasses.fields(workload.events)}
    return job(
        workload,
        option_pairs(arguments.option),
        arguments.rows,
        keys=arguments.keys if has_keys else None,
        seed=arguments.seed,
    )


def confs_of(before: Path) -> dict[str, str]:
    """The settings of another checkout, as its own Python gives them, or of a jar."""
    problem = f"There is nothing to compare with at {before}."
    if before.is_file() and _build.read_properties(before):
        return {**tailrace.confs(), JARS_CONF: str(before.resolve())}
    source = before.resolve() / "src"
    if not (source / "tailrace" / "__init__.py").is_file():
        raise BenchError(
            problem,
            "It is neither a checkout of tailrace (with src/tailrace) nor an engine's jar.",
            "Make one: git worktree add ../before main, then --before ../before.",
        )
    # The settings only if the version is right: they may have to compile an engine first.
    code = (
        "import json, sys, tailrace as t; right = t.__version__ == sys.argv[1]; "
        "print(json.dumps([t.__file__, t.__version__, t.confs() if right else {}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tailrace.__version__],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=before,
    )
    if done.returncode != 0:
        raise BenchError(problem, done.stderr.strip(), "Correct that checkout: make engine.")
    file, version, confs = json.loads(done.stdout.splitlines()[-1])
    if source not in Path(file).parents or version != tailrace.__version__:
        raise BenchError(
            problem,
            f"Its tailrace is {version} from {Path(file).parent}; this is {tailrace.__version__}.",
            "Give a checkout of the same version.",
        )
    return {str(key): str(value) for key, value in confs.items()}


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    found = contests(arguments)
    confs = (confs_of(arguments.before), tailrace.confs())
    others = OtherWork()
    outcomes: list[runner.Outcome] = []
    sides: list[Side] = []
    interrupted = False
    other_work: float | None = None
    with terminable(), runner.interrupts(screen) as stop:
        try:
            for store, its in zip((TAILRACE_BEFORE, TAILRACE), confs, strict=True):
                sides.append(Side(store, its, arguments))
            machines = [side.ask("environment") for side in sides]
            for number, (made, plan) in enumerate(found):
                outcomes.append(runner.Outcome(made))
                for repeat in range(plan.repeat):
                    _contest(sides, number, repeat, plan, outcomes[-1], screen, stop)
        except (runner.Stopped, KeyboardInterrupt):
            interrupted = True
        except TailraceError as error:
            if not any(rows for outcome in outcomes for rows in outcome.rows.values()):
                raise
            screen.say(f"{outcomes[-1].job.label} failed, and the run ends with it: {error}")
            interrupted = True
        finally:
            other_work = others.share()  # while the sides run, whose CPU is not other work
            with deaf():
                for side in sides:
                    side.close()
    if not outcomes:
        raise KeyboardInterrupt
    environment = {**machines[1], "other_work_share": other_work}
    plan = plan_of(arguments)
    document = result.assemble(plan, environment, outcomes, interrupted)
    document["settings"] |= {
        "interleaving": INTERLEAVING,
        "engine_before": machines[0]["engine"],
        "engine_after": machines[1]["engine"],
    }
    screen.clear()
    return document


def _contest(
    sides: list[Side],
    number: int,
    repeat: int,
    plan: Plan,
    outcome: runner.Outcome,
    screen: Screen,
    stop: threading.Event,
) -> None:
    # 1.
    for side in sides:
        side.ask("open", number, repeat)
    # 2. and 3.
    phases: list[str | int] = ["warmup"] * plan.warmup
    for this_round, share in enumerate(runner.shares(plan.batches, plan.rounds)):
        phases += [this_round] * share
    for pair, phase in enumerate(phases):
        for side in sides if pair % 2 == 0 else reversed(sides):
            row = side.ask("batch", repeat, phase, next(outcome.order))
            if phase != "warmup":
                outcome.rows.setdefault(side.store.name, []).append(row)
            what = "warm-up" if phase == "warmup" else f"round {int(phase) + 1}"
            screen.step(f"{outcome.job.label}, {what}, {side.store.title}")
        if stop.is_set():
            raise runner.Stopped
    # 4.
    outcome.agreements.append(
        runner.agreement_of({side.store.name: side.ask("close") for side in sides})
    )
