"""Several processes in turns, a contestant in each: the frame of `compare` and `prefetch`.

Problem: contestants that cannot share a JVM still have to meet the same moments of the machine.
Answer: a process for each. They run a few batches in turn, and who is first changes with every
turn, so that other work of the machine hits all alike.
Invariant: all sides do the same work (their results are compared), at most one runs a batch, and
what was measured is kept, whatever ends the run.

One run of a workload:
1. All sides start its query, and let its preload through.
2. Warm up, in turns; these batches are discarded.
3. Rounds: a turn of each side; which is first moves on with every turn.
4. All sides end the query; their results are compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tailrace.bench import result, runner
from tailrace.bench.meters import OtherWork
from tailrace.bench.plan import Job, Plan
from tailrace.bench.screen import Screen
from tailrace.bench.side import Side
from tailrace.bench.stores import Store
from tailrace.cli._folder import deaf, terminable
from tailrace.errors import TailraceError


@dataclasses.dataclass(frozen=True)
class How:
    """How the contestants take turns, and when it is over."""

    turn: int = 1
    """How many batches one of them runs before the next one does."""
    kept: int = 1
    """Of so many measured batches the last one is kept."""
    minutes: float | None = None
    """A workload ends with the first turn after so long, however many batches the plan has."""
    after: Callable[[Side, int, dict[str, Any]], None] = lambda *_: None
    """Gets a side, how many batches of it were measured, and the figures of the last one."""


class Suite(Protocol):
    """The module that says what is run. Every process asks it, with the same arguments."""

    __name__: str

    def contests(self, arguments: argparse.Namespace) -> list[tuple[Job, Plan]]:
        """Each workload with the plan that it runs by."""

    def plan_of(self, arguments: argparse.Namespace) -> Plan:
        """All workloads in one plan, with the settings that they have in common."""

    def settings(self, plan: Plan) -> dict[str, str]:
        """Of the session of a side."""


def run(
    suite: Suite,
    arguments: argparse.Namespace,
    entrants: Sequence[tuple[Store, Mapping[str, str]]],
    how: How,
    screen: Screen,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measures; gives the result as it goes into a file, and each side's environment.

    `entrants` are the contestants with the settings of their sessions.
    """
    found = suite.contests(arguments)
    others = OtherWork()
    outcomes: list[runner.Outcome] = []
    sides: list[Side] = []
    interrupted = False
    other_work: float | None = None
    with terminable(), runner.interrupts(screen) as stop:
        try:
            for store, confs in entrants:
                sides.append(Side(store, confs, arguments, suite.__name__))
            machines = [side.ask("environment") for side in sides]
            for number, (job, plan) in enumerate(found):
                outcomes.append(runner.Outcome(job))
                taking_part = [side for side in sides if side.store in plan.stores]
                try:
                    for repeat in range(plan.repeat):
                        one(taking_part, number, repeat, plan, outcomes[-1], how, screen, stop)
                except TailraceError as error:
                    if number == len(found) - 1:
                        raise
                    screen.say(f"{job.label} failed, and the next one begins: {error}")
                    interrupted = True
                    for side in taking_part:
                        side.ask("abandon")  # of a process that has ended this is the end
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
    environment = {**machines[-1], "other_work_share": other_work}
    document = result.assemble(suite.plan_of(arguments), environment, outcomes, interrupted)
    screen.clear()
    return document, machines


def one(
    sides: Sequence[Side],
    number: int,
    repeat: int,
    plan: Plan,
    outcome: runner.Outcome,
    how: How,
    screen: Screen,
    stop: threading.Event,
) -> None:
    """One workload, in all four steps."""
    # 1.
    for side in sides:
        side.ask("open", number, repeat)
        if outcome.job.preload:
            screen.say(f"{outcome.job.label}: preloading {side.store.title}")
            side.ask("preload", outcome.job.preload)
        if stop.is_set():
            raise runner.Stopped
    # 2. and 3.
    until = None if how.minutes is None else time.monotonic() + 60 * how.minutes
    measured = dict.fromkeys((side.store.name for side in sides), 0)
    for place, (phase, batches) in enumerate(turns(plan, how.turn)):
        first = place % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            for _ in range(batches):
                row = side.ask("batch", repeat, phase, next(outcome.order))
                if phase != "warmup":
                    measured[side.store.name] += 1
                    if measured[side.store.name] % how.kept == 0:
                        outcome.rows.setdefault(side.store.name, []).append(row)
                    how.after(side, measured[side.store.name], row)
                what = "warm-up" if phase == "warmup" else f"round {int(phase) + 1}"
                speed = row["rows"] / row["seconds"]
                screen.step(f"{outcome.job.label}, {what}, {side.store.title}", speed)
        if stop.is_set():
            raise runner.Stopped
        if until is not None and time.monotonic() > until:
            break
    # 4.
    outcome.agreements.append(
        runner.agreement_of({side.store.name: side.ask("close") for side in sides})
    )


def turns(plan: Plan, turn: int) -> Iterator[tuple[str | int, int]]:
    """The turns of a run: the phase of each, and its batches."""
    phases: list[tuple[str | int, int]] = [("warmup", plan.warmup)]
    phases += list(enumerate(runner.shares(plan.batches, plan.rounds)))
    for phase, batches in phases:
        for done in range(0, batches, turn):
            yield phase, min(turn, batches - done)
