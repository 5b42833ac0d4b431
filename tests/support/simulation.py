"""Simulated histories of the commit protocol (tests/jvm/simulation), in a JVM of their own.

Problem: a hundred thousand histories need a fast machine and no Spark.
Answer: the engine's ledger and pipeline are pure functions; a plain Java program drives them. This
module starts it and reads its output.
Invariant: every history was run to its end, or its violation is reported with its seed; the seed
alone replays it. An exception of the simulation is no violation: it proves nothing about the rules.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from support.compilation import harness_jar
from tailrace import _build

PROGRAM = "org.apache.spark.sql.tailrace.testing.simulation.Simulations"
RULES = range(1, 8)


NO_SEED = "none"


@dataclass(frozen=True)
class Violation:
    """A history that broke a rule: `make simulate REPLAY=seed` shows it.

    `harm` is one of the names in tests/jvm/simulation/Violation.scala.
    """

    seed: int
    harm: str
    text: str


class SimulationError(Exception):
    """The simulation itself failed, in the history of this seed."""

    def __init__(self, seed: int, text: str) -> None:
        super().__init__(f"the simulation itself failed, seed {seed}: {text}")
        self.seed = seed


def simulate(
    first: int,
    count: int,
    *,
    rules_off: str = "",
    threads: int = 2,
    most: int = 5,
    defective: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Violation]:
    """Runs the histories of these seeds, and ends early when so many violations were found.

    In the history of the seed `defective` the simulation itself is made to fail.
    """
    found = []
    finished = None
    seed = NO_SEED if defective is None else defective
    for line in _run("run", first, count, rules_off, threads, most, seed):
        word, *fields = line.split("\t")
        if word == "violation":
            found.append(_violation(fields))
        elif word == "defect":
            raise SimulationError(int(fields[0]), fields[1])
        elif word == "progress":
            progress(int(fields[0]))
        elif word == "finished":
            finished = int(fields[0])
    assert finished is not None, "the program did not come to its end"
    assert finished == count or len(found) >= most, f"{finished} of {count} histories"
    return sorted(found, key=lambda violation: violation.seed)


@dataclass(frozen=True)
class History:
    """The events of one seed, a line each, and how it ended."""

    events: list[str]
    violation: Violation | None

    @property
    def lines(self) -> list[str]:
        end = self.violation
        return [*self.events, f"violation: {end.harm}: {end.text}" if end else "no violation"]


def replay(seed: int, rules_off: str = "", defective: int | None = None) -> History:
    events: list[str] = []
    for line in _run("replay", seed, rules_off, NO_SEED if defective is None else defective):
        word, *fields = line.split("\t")
        if word == "event":
            events.append(fields[0])
        elif word == "violation":
            return History(events, _violation(fields))
        elif word == "defect":
            print("\n".join(events))
            raise SimulationError(seed, fields[1])
        elif word == "ended":
            return History(events, None)
    raise AssertionError("the program did not come to its end")


def _violation(fields: list[str]) -> Violation:
    seed, harm, text = fields
    return Violation(int(seed), harm, text)


def _run(*arguments: object) -> Iterator[str]:
    classes = os.pathsep.join(map(str, (_build.jar(), harness_jar(), _build.spark_jars() / "*")))
    command = [str(_build.java()), "-XX:+UseParallelGC", "-Xmx1g", "-cp", classes, PROGRAM]
    with subprocess.Popen(
        [*command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield from (line.rstrip("\n") for line in process.stdout)
        finally:
            process.kill()
