"""Simulated histories of the commit protocol (tests/jvm/simulation), in a JVM of their own.

Problem: a hundred thousand histories need a fast machine and no Spark.
Answer: the engine's ledger and pipeline are pure functions; a plain Java program drives them. This
module starts it and reads its output.
Invariant: every history was run to its end, or its violation is reported with its seed; the seed
alone replays it.
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


@dataclass(frozen=True)
class Violation:
    """A history that broke a rule: `make simulate REPLAY=seed` shows it."""

    seed: int
    text: str


def simulate(
    first: int,
    count: int,
    *,
    rules_off: str = "",
    threads: int = 2,
    most: int = 5,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Violation]:
    """Runs the histories of these seeds, and ends early when so many violations were found."""
    found = []
    finished = None
    for line in _run("run", first, count, rules_off, threads, most):
        word, *fields = line.split("\t")
        if word == "violation":
            found.append(Violation(int(fields[0]), fields[1]))
        elif word == "progress":
            progress(int(fields[0]))
        elif word == "finished":
            finished = int(fields[0])
    assert finished is not None, "the program did not come to its end"
    assert finished == count or len(found) >= most, f"{finished} of {count} histories"
    return sorted(found, key=lambda violation: violation.seed)


def replay(seed: int, rules_off: str = "") -> list[str]:
    """The history of a seed, a line an event; the last line is its outcome."""
    return list(_run("replay", seed, rules_off))


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
