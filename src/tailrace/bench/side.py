"""One side of a contest: a process of its own that runs a batch when it is asked.

Problem: two builds of the engine have the same class names, and a budget of memory is a process's,
so such contestants cannot share a JVM.
Answer: a process per side, each with its own JVM, one engine's jar and settings. The workloads,
the gate and the meters are this package's on all sides, so all do the same work.
Invariant: a side runs only while it is asked for a batch, and ends, with its JVM and its files,
when its connection does.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from tailrace.bench.environment import environment
from tailrace.bench.stores import BenchError, Store
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.bench.entrant import Entrant
    from tailrace.bench.plan import Job, Plan
    from tailrace.cli._local import LocalSession

SECONDS_TO_END = 40


class Side:
    """The parent's end: starts the process, asks it, ends it."""

    def __init__(
        self,
        store: Store,
        confs: Mapping[str, str],
        arguments: argparse.Namespace,
        suite: str = "tailrace.bench.compare",
    ) -> None:
        """`suite` is the module that says what is to be run: see contest.Suite."""
        self.store = store
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, store, dict(confs), arguments, suite), daemon=True
        )
        self._process.start()
        theirs.close()

    def ask(self, command: str, *values: Any) -> Any:
        """Has the side carry out a command, and waits until it is done."""
        try:
            self._connection.send((command, *values))
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(SECONDS_TO_END)
            raise BenchError(
                f"The process of {self.store.title} has ended.",
                f"Its exit code is {self._process.exitcode}; a JVM of its own ran in it.",
                "If it is the machine's memory, use fewer rows or a smaller --memory: each side "
                "has a JVM.",
            ) from None
        if isinstance(answer, TailraceError):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the process; it removes its files first."""
        self._connection.close()
        self._process.join(SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve(
    connection: Connection,
    store: Store,
    confs: dict[str, str],
    arguments: argparse.Namespace,
    module: str,
) -> None:
    """The process: answers until the connection ends."""
    from tailrace.cli._local import local_session, readable

    # Ctrl-C goes to all processes of a terminal; the parent decides, and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        try:
            suite = importlib.import_module(module)
            plan = suite.plan_of(arguments)
            settings = suite.settings(plan)
            name = f"tailrace bench, {store.name}"
            with local_session(name, plan.cores, plan.memory, settings, confs) as session:
                hands = Hands(session, store, confs, suite.contests(arguments))
                while True:
                    command, *values = connection.recv()
                    try:
                        answer = getattr(hands, command)(*values)
                    except TailraceError as error:
                        answer = error
                    except EOFError:
                        raise
                    except Exception as error:
                        answer = BenchError(
                            f"{store.title} failed.",
                            readable(str(error)) or type(error).__name__,
                            "Run the workload alone on that checkout to see more.",
                        )
                    connection.send(answer)
        except TailraceError as error:  # Spark did not start
            connection.recv()
            connection.send(error)


class Hands:
    """The commands that a side can be asked for."""

    def __init__(
        self,
        session: LocalSession,
        store: Store,
        confs: dict[str, str],
        contests: Sequence[tuple[Job, Plan]],
    ) -> None:
        self._session = session
        self._store = store
        self._confs = confs
        self._contests = contests
        self._entrant: Entrant | None = None
        self._counts: Callable[[], dict[str, int]] = dict

    def environment(self) -> dict[str, Any]:
        return environment(self._session.spark)

    def open(self, number: int, repeat: int) -> None:
        """Starts the query of a workload."""
        from tailrace.bench import runner
        from tailrace.bench.entrant import Entrant
        from tailrace.bench.workloads import ysb

        job, plan = self._contests[number]
        folder = self._session.directory / f"{self._store.name}-{number}-{repeat}"
        loop = runner.loop(plan, job, self._store)
        with ysb.counted() as self._counts:
            self._entrant = Entrant(
                self._session.spark, self._store, job, plan, loop, folder, self._confs
            )

    def preload(self, rows: int) -> None:
        """Lets rows through that are not measured."""
        assert self._entrant is not None
        self._entrant.preload(rows)

    def batch(self, repeat: int, phase: str | int, order: int) -> dict[str, Any]:
        assert self._entrant is not None
        shuffled = self._shuffled()
        self._entrant.begin_turn()
        try:
            row = self._entrant.batch(repeat, phase, order)
        finally:
            self._entrant.end_turn()
        row["shuffled_bytes"] = self._shuffled() - shuffled
        row["custom_metrics"] |= self._counts()
        return row

    def abandon(self) -> None:
        """Ends the query, whatever became of it."""
        if self._entrant is not None:
            self.close()

    def place(self) -> tuple[str, str]:
        """Where hints of the query's operator are taken now, and why."""
        assert self._entrant is not None
        use = self._entrant.uses()[0]
        return use.lookahead, use.lookahead_reason

    def moves(self, millis: float) -> None:
        """The remote file system is so far away from now on."""
        from tailrace import _jvm

        remote = self._contests[0][1].remote
        assert remote is not None
        system: Any = _jvm.engine(self._session.spark).classes.bench.RemoteFileSystem
        system.link(remote.rtt_nanos, remote.bandwidth_bytes).moves(round(millis * 1e6))

    def close(self) -> dict[int, list[int]]:
        """Ends the query; gives the digests of its results."""
        from tailrace.bench import runner

        assert self._entrant is not None
        entrant, self._entrant = self._entrant, None
        entrant.close()
        runner.free_state(self._session)
        return entrant.digests

    def _shuffled(self) -> int:
        """Bytes that the tasks of this process have written for a shuffle."""
        status: Any = self._session.spark._jsc.sc().statusStore()
        executors = status.executorList(False)
        return sum(int(executors.apply(n).totalShuffleWrite()) for n in range(executors.size()))
