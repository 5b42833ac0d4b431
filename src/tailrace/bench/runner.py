"""Runs a plan: all stores in one JVM, in turns.

Problem: two runs after each other compare two moments of a machine as much as two stores.
Answer: every store has its query, all of them alive in one session, and they take turns: some
batches each, then the next, in an order that moves on by one in every round.
Invariant: measurements are kept, whatever ends the run; an interrupted result says so.

One run of a job:
1. Start a query per store, and let the preload through.
2. Warm up: some batches of each, which are discarded.
3. Rounds: each store runs its share of the batches.
4. Stop the queries, free their state, compare their results.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import tailrace
from tailrace.bench import result
from tailrace.bench.entrant import Entrant
from tailrace.bench.environment import environment
from tailrace.bench.loops import Arrivals, ClosedLoop, Deadline, Loop, OpenLoop
from tailrace.bench.meters import OtherWork
from tailrace.bench.plan import Job, Plan
from tailrace.bench.remote import behind_settings
from tailrace.bench.screen import Screen
from tailrace.bench.stores import Store
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.cli._local import LocalSession


class Stopped(Exception):  # noqa: N818 - the user's wish, not an error
    """The user asked for an end."""


@dataclass
class Outcome:
    """The measurements and results of one job's stores so far."""

    job: Job
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    agreements: list[dict[str, Any]] = field(default_factory=list)
    order: Iterator[int] = field(default_factory=itertools.count)
    """Numbers the batches of all stores as they were run."""


def run(plan: Plan, screen: Screen) -> dict[str, Any]:
    """Measures, and gives the result as it goes into a file."""
    from tailrace.cli._local import local_session

    confs = tailrace.confs()  # once, and before: it compiles the engine if a source has changed
    with (
        local_session("tailrace bench", plan.cores, plan.memory, settings(plan)) as session,
        interrupts(screen) as stop,
    ):
        found = measure(session, plan, screen, stop, confs)
    screen.clear()
    return found


def measure(
    session: LocalSession,
    plan: Plan,
    screen: Screen,
    stop: threading.Event,
    confs: dict[str, str],
) -> dict[str, Any]:
    """The same in a session that is there already."""
    from tailrace.cli._local import readable

    found = environment(session.spark)
    others = OtherWork()
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for job in plan.jobs:
            outcomes.append(Outcome(job))
            _run_job(session, plan, outcomes[-1], screen, stop, confs)
    except (Stopped, KeyboardInterrupt):
        interrupted = True
    except Exception as error:  # a query's, the JVM's that died: measurements are kept
        if not any(rows for outcome in outcomes for rows in outcome.rows.values()):
            raise
        told = str(error) if isinstance(error, TailraceError) else readable(str(error))
        screen.say(f"{outcomes[-1].job.label} failed, and the run ends with it: {told}")
        interrupted = True
    found["other_work_share"] = others.share()
    return result.assemble(plan, found, outcomes, interrupted)


def settings(plan: Plan) -> dict[str, str]:
    """The session's settings beside the defaults of Spark; the same for every store."""
    chosen = {
        "spark.sql.shuffle.partitions": str(plan.partitions),
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        "spark.sql.session.timeZone": "UTC",
    }
    if plan.remote:
        chosen |= plan.remote.settings()
    if any(store.background for store in plan.stores):
        chosen |= behind_settings(plan.remote)
    return chosen


def _run_job(
    session: LocalSession,
    plan: Plan,
    outcome: Outcome,
    screen: Screen,
    stop: threading.Event,
    confs: dict[str, str],
) -> None:
    for repeat in range(plan.repeat):
        entrants: list[Entrant] = []
        try:
            # 1.
            for number, store in enumerate(plan.stores_of(outcome.job)):
                folder = session.directory / f"{outcome.job.workload.name}-{repeat}-{number}"
                its_loop = loop(plan, outcome.job, store)
                entrants.append(
                    Entrant(session.spark, store, outcome.job, plan, its_loop, folder, confs)
                )
                if outcome.job.preload:
                    screen.say(f"{outcome.job.label}: preloading {store.title}")
                    entrants[-1].preload(outcome.job.preload)
            # 2.
            if plan.warmup:
                _round(entrants, repeat, "warmup", plan.warmup, outcome, screen, stop)
            # 3.
            for number, share in enumerate(shares(plan.batches, plan.rounds)):
                order = entrants[number % len(entrants) :] + entrants[: number % len(entrants)]
                _round(order, repeat, number, share, outcome, screen, stop)
        finally:
            # 4.
            for entrant in entrants:
                outcome.rows.setdefault(entrant.store.name, []).extend(entrant.rows)
            outcome.agreements.append(agreement(entrants))
            for entrant in entrants:
                entrant.close()
            free_state(session)


def _round(
    entrants: list[Entrant],
    repeat: int,
    phase: str | int,
    batches: int,
    outcome: Outcome,
    screen: Screen,
    stop: threading.Event,
) -> None:
    for entrant in entrants:
        entrant.begin_turn()
        for _ in range(batches):
            row = entrant.batch(repeat, phase, next(outcome.order))
            what = "warm-up" if phase == "warmup" else f"round {int(phase) + 1}"
            screen.step(
                f"{outcome.job.label}, {what}, {entrant.store.title}", row["rows"] / row["seconds"]
            )
            if stop.is_set():
                raise Stopped
        entrant.end_turn()


def shares(batches: int, rounds: int) -> list[int]:
    """The batches of each round, as even as can be."""
    return [batches * (n + 1) // rounds - batches * n // rounds for n in range(rounds)]


def agreement(entrants: list[Entrant]) -> dict[str, Any]:
    """Whether the stores showed the same results, batch by batch, as far as they ran the same."""
    return agreement_of(
        {
            entrant.store.name: entrant.digests
            for entrant in entrants
            if not entrant.store.deadline and isinstance(entrant.loop, ClosedLoop)
        }
    )


def agreement_of(digests: Mapping[str, Mapping[int, list[int]]]) -> dict[str, Any]:
    """The same for digests by store and batch."""
    compared = {name: found for name, found in digests.items() if found}
    first = next(iter(compared), "")
    differences = [
        {"store": other, "against": first, "batch": number}
        for other in list(compared)[1:]
        for number in sorted(compared[other].keys() & compared[first].keys())
        if compared[other][number] != compared[first][number]
    ]
    return {
        "compared": list(compared) if len(compared) > 1 else [],
        "batches": min((len(found) for found in compared.values()), default=0),
        "differences": differences[:20],
        "agree": not differences,
    }


def loop(plan: Plan, job: Job, store: Store) -> Loop:
    deadline = None
    if store.deadline:
        # A batch's fixed cost alone can exceed the deadline; then batches of one row would only
        # make it worse, so at least half of the events that arrive meanwhile are taken.
        usual = job.rows if job.rate is None else max(1, round(job.rate * job.trigger))
        deadline = Deadline(
            job.trigger or 1.0, most=max(job.rows, 10 * usual), least=max(1, usual // 2)
        )
    if job.rate is None:
        return ClosedLoop(job.rows, deadline)
    return OpenLoop(Arrivals(job.rate, job.spread, plan.seed), job.trigger, deadline)


def free_state(session: LocalSession) -> None:
    """Closes the stores of queries that ended, instead of a minute later: the next job's memory."""
    jvm: Any = session.spark._jvm
    with contextlib.suppress(Exception):  # not public; without it memory is freed later
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        jvm.java.lang.System.gc()


@contextlib.contextmanager
def interrupts(screen: Screen) -> Iterator[threading.Event]:
    """The first Ctrl-C ends the run after the present batch; a second one, or SIGTERM, at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        screen.say("Interrupted: ending after this batch. Ctrl-C again to end at once.")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
