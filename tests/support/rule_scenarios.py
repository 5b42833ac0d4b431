"""A scenario for each rule of the commit protocol: right with the rule, wrong without it.

Problem: a rule that is never missed may be missing already.
Answer: the same function runs twice: with all rules in the tests' own session, and in a process of
its own in which TAILRACE_RULES_OFF names the rule. Uploads are held up by the scripted file system
at the moment that matters, and a crash is a copy of the disk at that moment (`Counting.crashed`),
so that nothing depends on chance or speed.
Invariant: a scenario returns its faults, in words; with the rule there are none.

As a program: the rule's number and a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from support.counting import Counting, happens
from support.faults import PACK, FileFaults
from support.processes import say, session

# How long an event that the rule forbids is given to happen.
RESTRAINT_SECONDS = 1.5
FORGETS = {"cleanSource": "delete"}


def state_is_there(faults: FileFaults, folder: Path) -> list[str]:
    """1. A crash while batch 1 is not durable: is it published?"""
    counting, query = two_batches(faults, folder)
    with faults.hold() as await_held:
        counting.run_batch(query, "oak fir")
        await_held()
        happens(lambda: 2 in counting.published, RESTRAINT_SECONDS)
        left = crash(counting, query)
    left.add("elm ash")
    return left.problems_after(faults.session())


def output_is_final(faults: FileFaults, folder: Path) -> list[str]:
    """2. A crash while batch 2 is not published: has batch 3, which is planned anew, been shown?"""
    left = crash_between_two_batches(faults, folder)
    left.add("oak ash")
    return left.problems_after(faults.session())


def batch_is_run_again(faults: FileFaults, folder: Path) -> list[str]:
    """3. The same crash: does Spark run batch 2 again, or go on with batch 3, whose offsets are
    there although batch 2 is not published?"""
    left = crash_between_two_batches(faults, folder)
    return left.problems_after(faults.session())


def input_is_there(faults: FileFaults, folder: Path) -> list[str]:
    """4. The same crash over a source that deletes the files of committed batches."""
    left = crash_between_two_batches(faults, folder, source=FORGETS)
    return left.problems_after(faults.session(), source=FORGETS)


def readers_see_the_last_batch(faults: FileFaults, folder: Path) -> list[str]:
    """5. The state is read, and the query restarted, while batch 2 is on its way."""
    counting, query = two_batches(faults, folder)
    with ThreadPoolExecutor(2) as pool:
        with faults.hold() as await_held:
            counting.run_batch(query, "oak fir")
            await_held()
            query.stop()
            reader = pool.submit(counting.state, faults.session())
            happens(reader.done, RESTRAINT_SECONDS)
            restarted = pool.submit(counting.start, faults.session())
            happens(lambda: counting.calls.count(2) > 1, RESTRAINT_SECONDS)
        problems = []
        if reader.result() != counting.expected:
            problems.append(f"read {dict(reader.result())} instead of {dict(counting.expected)}")
        restarted.result().stop()
    if counting.calls.count(2) > 1:
        problems.append("a batch ran again though no process had crashed")
    return problems


def errors_pass(faults: FileFaults, folder: Path) -> list[str]:
    """6. The file system refuses once, first a pack and then an entry of the log."""
    problems = []
    for name, pattern in (("pack", PACK), ("log", r"/commits/\.")):
        counting = Counting(folder / name)
        for text in ("oak elm", "oak fir", "elm"):
            counting.add(text)
        faults.fail("create", pattern, times=1)
        problems += counting.problems_after(faults.session())
        faults.clear()
    return problems


SCENARIOS: dict[int, Callable[[FileFaults, Path], list[str]]] = {
    1: state_is_there,
    2: output_is_final,
    3: batch_is_run_again,
    4: input_is_there,
    5: readers_see_the_last_batch,
    6: errors_pass,
}


def two_batches(faults: FileFaults, folder: Path, **start: Any) -> tuple[Counting, StreamingQuery]:
    """A query with two published batches: from here on log entries are overlapped, too."""
    counting = Counting(folder)
    query = counting.start(faults.session(), **start)
    for text in ("oak elm", "elm fir"):
        counting.await_published(counting.run_batch(query, text))
    return counting, query


def crash_between_two_batches(faults: FileFaults, folder: Path, **start: Any) -> Counting:
    """Batch 2 is applied and not durable; there was time to do all of batch 3 that may be done."""
    counting, query = two_batches(faults, folder, **start)
    with faults.hold() as await_held:
        counting.run_batch(query, "oak fir")
        await_held()
        counting.add("elm elm")
        if not start:
            counting.await_started(3)
        happens(lambda: not (counting.events / "0002.json").exists(), RESTRAINT_SECONDS)
        return crash(counting, query)


def crash(counting: Counting, query: StreamingQuery) -> Counting:
    """The disk after a crash now. The query, which did not really crash, touches it no more."""
    left = counting.crashed()
    query.stop()
    return left


def main(number: int, folder: Path) -> None:
    faults = FileFaults(session())
    say("saw", problems=SCENARIOS[number](faults, folder))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
