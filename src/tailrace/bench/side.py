"""One side of a comparison of two engines: a process of its own that runs a batch when it is asked.

Problem: two builds of the engine have the same class names, so they cannot live in one JVM.
Answer: a process per side, each with its own JVM and one engine's jar and settings. The workloads,
the gate and the meters are this package's on both sides, so both do the same work.
Invariant: a side runs only while it is asked for a batch, and ends, with its JVM and its files,
when its connection does.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from tailrace.bench.environment import environment
from tailrace.bench.stores import BenchError, Store
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.bench.entrant import Entrant
    from tailrace.cli._local import LocalSession

SECONDS_TO_END = 40


class Side:
    """The parent's end: starts the process, asks it, ends it."""

    def __init__(
        self, store: Store, confs: Mapping[str, str], arguments: argparse.Namespace
    ) -> None:
        self.store = store
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, store, dict(confs), arguments), daemon=True
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
                "If it is the machine's memory, use fewer rows or a smaller --memory: there are "
                "two JVMs.",
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
    connection: Connection, store: Store, confs: dict[str, str], arguments: argparse.Namespace
) -> None:
    """The process: answers until the connection ends."""
    from tailrace.bench import compare
    from tailrace.cli._local import local_session, readable

    # Ctrl-C goes to all processes of a terminal; the parent decides, and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        try:
            plan = compare.plan_of(arguments)
            settings = compare.settings(plan)
            name = f"tailrace bench compare, {store.name}"
            with local_session(name, plan.cores, plan.memory, settings, confs) as session:
                hands = Hands(session, store, confs, arguments)
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
        arguments: argparse.Namespace,
    ) -> None:
        self._session = session
        self._store = store
        self._confs = confs
        self._arguments = arguments
        self._entrant: Entrant | None = None

    def environment(self) -> dict[str, Any]:
        return environment(self._session.spark)

    def open(self, number: int, repeat: int) -> None:
        """Starts the query of a workload."""
        from tailrace.bench import compare, runner
        from tailrace.bench.entrant import Entrant

        job, plan = compare.contests(self._arguments)[number]
        folder = self._session.directory / f"{self._store.name}-{number}-{repeat}"
        loop = runner.loop(plan, job, self._store)
        self._entrant = Entrant(
            self._session.spark, self._store, job, plan, loop, folder, self._confs
        )

    def batch(self, repeat: int, phase: str | int, order: int) -> dict[str, Any]:
        assert self._entrant is not None
        self._entrant.begin_turn()
        try:
            return self._entrant.batch(repeat, phase, order)
        finally:
            self._entrant.end_turn()

    def close(self) -> dict[int, list[int]]:
        """Ends the query; gives the digests of its results."""
        from tailrace.bench import runner

        assert self._entrant is not None
        entrant, self._entrant = self._entrant, None
        entrant.close()
        runner.free_state(self._session)
        return entrant.digests
