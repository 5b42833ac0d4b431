"""This checkout against another one: `tailrace bench compare WORKLOAD... --before CHECKOUT`.

Problem: "not slower than before" cannot be shown by two runs an hour apart, and two builds of the
engine cannot be stores of one run.
Answer: two processes, one per side, each with its own JVM, in turns of a batch, A B B A
(contest.py).
Invariant: both sides do the same work; between them nothing differs but the engine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tailrace
from tailrace import _build
from tailrace.bench import contest, runner
from tailrace.bench.plan import Job, Plan, Sizes, job, option_pairs, workloads
from tailrace.bench.remote import Remote
from tailrace.bench.screen import Screen
from tailrace.bench.stores import TAILRACE, TAILRACE_BEFORE, BenchError
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
    confs = (confs_of(arguments.before), tailrace.confs())
    entrants = list(zip((TAILRACE_BEFORE, TAILRACE), confs, strict=True))
    suite = sys.modules[__name__]
    document, machines = contest.run(suite, arguments, entrants, contest.How(), screen)
    document["settings"] |= {
        "interleaving": INTERLEAVING,
        "engine_before": machines[0]["engine"],
        "engine_after": machines[1]["engine"],
    }
    return document
