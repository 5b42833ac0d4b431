"""Queries that follow a script, and the surroundings in which they are supervised.

Problem: decisions of `supervise` depend on batches, errors and hours, and a test has none of them.
Answer: a `Script` is a query that takes steps; `World` is its clock, its waits and its drain.
Invariant: time moves on only where a step or a wait says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tailrace.supervise import Failure, Surroundings, supervise

# One step of a script: a batch that was applied, an idle trigger that names the batch to come, or
# seconds that pass.
Step = tuple[str, float]


def batch(number: int) -> Step:
    return ("batch", number)


def idle(upcoming: int) -> Step:
    return ("idle", upcoming)


def seconds(number: float) -> Step:
    return ("seconds", number)


class Script:
    """A query that takes its steps one by one and then ends, with an error if it has one."""

    def __init__(self, *steps: Step, error: BaseException | None = None) -> None:
        self.steps = list(steps)
        self.error = error
        self.stops = 0
        self.lastProgress: Any = None
        self.world = World()

    def awaitTermination(self, timeout: float) -> bool:
        assert timeout > 0
        if self.steps:
            self._take(*self.steps.pop(0))
            return False
        if self.error is not None:
            raise self.error
        return True

    def _take(self, what: str, number: float) -> None:
        self.world.now += number if what == "seconds" else 0.25
        if what != "seconds":
            durations = {"triggerExecution": 5} | ({"addBatch": 3} if what == "batch" else {})
            self.lastProgress = SimpleNamespace(
                batchId=int(number), timestamp=str(self.world.now), durationMs=durations
            )

    def stop(self) -> None:
        self.stops += 1


class Endless(Script):
    """A query that runs until it is stopped; it says when a thread waits for it."""

    def __init__(self, *, stop_error: Exception | None = None, end_error: Exception | None = None):
        super().__init__()
        self.running = threading.Event()
        self.stopped = threading.Event()
        self.stop_error = stop_error
        self.end_error = end_error

    def awaitTermination(self, timeout: float) -> bool:
        self.running.set()
        ended = self.stopped.wait(min(timeout, 0.01))
        if ended and self.end_error is not None:
            raise self.end_error
        return ended

    def stop(self) -> None:
        super().stop()
        error, self.stop_error = self.stop_error, None
        if error is not None:
            raise error
        self.stopped.set()


class World:
    """The surroundings of a supervised query: a clock, waits that are noted, and the drain."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.drained: list[Script] = []
        self.drain_errors: list[Exception] = []
        self.reports: list[Failure] = []
        self.started: list[Script] = []

    def sleep(self, wait: float) -> None:
        self.waits.append(wait)
        self.now += wait

    def drain(self, query: Any) -> None:
        self.drained.append(query)
        if self.drain_errors:
            raise self.drain_errors.pop(0)

    def starter(self, *queries: Script | BaseException) -> Callable[[], Any]:
        remaining = list(queries)

        def start() -> Script:
            query = remaining.pop(0)
            if isinstance(query, BaseException):
                raise query
            query.world = self
            self.started.append(query)
            return query

        return start

    def run(self, *queries: Script | BaseException, **options: Any) -> Any:
        options.setdefault("on_failure", self.reports.append)
        surroundings = Surroundings(clock=lambda: self.now, sleep=self.sleep, drain=self.drain)
        return supervise(self.starter(*queries), surroundings=surroundings, **options)


def failing(*steps: Step, text: str = "the disk is gone") -> Script:
    return Script(*steps, error=RuntimeError(text))


def different(number: int) -> Script:
    """A failure that is not the same as another one: its class is its own."""
    return Script(error=type(f"Error{chr(97 + number)}", (Exception,), {})("odd"))
