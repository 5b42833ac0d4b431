"""When a batch starts, and which events are in it.

Problem: throughput and latency are different questions. As fast as possible, nothing ever queues,
and a slow store hides how long events would have waited for it.
Answer: two loops. Closed: a batch of fixed size starts when the one before it is committed. Open:
events arrive by a clock, whatever the store does; a batch takes all that has arrived, and latency
is from an event's arrival to the commit of its batch.
Invariant: in the open loop a store's clock stands still while it is not its turn, and events not
taken by then are still waiting afterwards: interleaving neither adds nor hides latency.
"""

from __future__ import annotations

import bisect
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailrace.bench.gate import Turn

SAMPLES_PER_BATCH = 20


class Runs(Protocol):
    """The query that a loop drives: runs one batch to its commit."""

    def __call__(self, rows: int) -> Turn: ...


class Loop(Protocol):
    """One store's loop; it keeps that store's clock and backlog from turn to turn."""

    def begin(self) -> None:
        """A turn begins."""

    def batch(self, run: Runs) -> tuple[Turn, int, dict[str, Any]]:
        """Runs one batch; gives its turn, its rows and the figures that only this loop knows."""

    def pause(self) -> None:
        """The turn ended."""


@dataclass
class Deadline:
    """zStream's rule: a batch takes no more than can be processed within the deadline.

    The time of a batch is taken to be fixed + slope * rows, by least squares over the last batches.
    """

    seconds: float
    most: int
    least: int = 1
    _seen: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=12))

    def limit(self) -> int:
        if not self._seen:
            return self.most
        count = len(self._seen)
        mean_rows = sum(rows for rows, _ in self._seen) / count
        mean_time = sum(taken for _, taken in self._seen) / count
        variance = sum((rows - mean_rows) ** 2 for rows, _ in self._seen)
        covariance = sum((r - mean_rows) * (t - mean_time) for r, t in self._seen)
        slope = covariance / variance if variance > 0 else 0.0
        if slope <= 0:  # batches alike: all of the time is the rows'
            slope = mean_time / mean_rows
        fixed = max(0.0, mean_time - slope * mean_rows)
        fitting = int((self.seconds - fixed) / slope + 1e-6)
        return max(self.least, min(self.most, fitting))

    def learn(self, rows: int, seconds: float) -> None:
        self._seen.append((rows, seconds))


@dataclass
class ClosedLoop:
    """Batches of one size, one after the other."""

    rows: int
    deadline: Deadline | None = None

    def begin(self) -> None: ...

    def pause(self) -> None: ...

    def batch(self, run: Runs) -> tuple[Turn, int, dict[str, Any]]:
        rows = self.rows if self.deadline is None else min(self.rows, self.deadline.limit())
        turn = run(rows)
        if self.deadline is not None:
            self.deadline.learn(rows, turn.seconds)
        return turn, rows, {}


class Arrivals:
    """How many events have arrived by a time: per second a normally distributed number.

    A pure function of rate, spread and seed, so it is the same for every store.
    """

    def __init__(self, rate: float, spread: float, seed: int) -> None:
        self._rate = rate
        self._spread = spread
        self._random = random.Random(seed)
        self._totals = [0]

    def by(self, seconds: float) -> int:
        whole = int(seconds)
        self._reach(lambda: len(self._totals) > whole + 1)
        before, after = self._totals[whole], self._totals[whole + 1]
        return before + int((after - before) * (seconds - whole))

    def time_of(self, number: int) -> float:
        """When the event of this number (from 0) arrived."""
        self._reach(lambda: self._totals[-1] > number + 1)
        second = bisect.bisect_right(self._totals, number) - 1
        before, after = self._totals[second], self._totals[second + 1]
        return second + (number + 1 - before) / (after - before)

    def _reach(self, enough: Callable[[], bool]) -> None:
        while not enough():
            count = round(self._random.gauss(self._rate, self._spread * self._rate))
            self._totals.append(self._totals[-1] + max(1, count))


class OpenLoop:
    """A batch per trigger interval, with all that has arrived; at once if it is late."""

    def __init__(
        self,
        arrivals: Arrivals,
        trigger: float,
        deadline: Deadline | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._arrivals = arrivals
        self._trigger = trigger
        self._deadline = deadline
        self._now = now
        self._sleep = sleep
        self._origin = 0.0
        self._elapsed = 0.0
        self._taken = 0
        self._due = trigger

    def begin(self) -> None:
        self._origin = self._now() - self._elapsed

    def pause(self) -> None:
        self._elapsed = self._now() - self._origin

    def batch(self, run: Runs) -> tuple[Turn, int, dict[str, Any]]:
        self._wait_until(max(self._due, self._arrivals.time_of(self._taken) + 0.001))
        started = self._now() - self._origin
        waiting = self._arrivals.by(started) - self._taken
        rows = max(1, waiting)
        if self._deadline is not None:
            rows = min(rows, self._deadline.limit())
        turn = run(rows)
        committed = self._now() - self._origin
        first, self._taken = self._taken, self._taken + rows
        if self._deadline is not None:
            self._deadline.learn(rows, turn.seconds)
        # Events that did not fit do not wait for another interval.
        self._due = started if rows < waiting else started + self._trigger
        step = max(1, rows // SAMPLES_PER_BATCH)
        numbers = range(first, self._taken, step)
        latencies = [round(committed - self._arrivals.time_of(n), 4) for n in numbers]
        return turn, rows, {"latency_seconds": latencies, "left_waiting": waiting - rows}

    def _wait_until(self, moment: float) -> None:
        while (left := moment - (self._now() - self._origin)) > 0:
            self._sleep(left)
