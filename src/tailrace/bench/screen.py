"""Where a run stands: batch, rate, time left.

Problem: a run takes minutes and prints its result at the end.
Answer: one line on standard error that changes, or plain lines where that is not a terminal.
Invariant: standard output is the result's alone. A time left is shown only when enough steps are
done to know it: the first ones start Spark and compile, and say nothing about the rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

KNOWN_FROM = 0.05
"""Share of the steps after which the time left can be told from the time that passed."""


class Screen:
    """Progress of a number of steps that is known from the start."""

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._now = now
        self._terminal = self._stream.isatty()
        self._total = max(1, total)
        self._done = 0
        self._started = now()
        self._first: float | None = None
        self._said = 0.0

    def step(self, text: str, rate: float | None = None) -> None:
        """One batch more."""
        self._done += 1
        share = min(1.0, self._done / self._total)
        elapsed = self._now() - self._started
        if self._first is None:
            self._first = elapsed
        speed = f", {rate:,.0f} rows/s" if rate else ""
        line = f"{self._done}/{self._total} batches, {text}{speed}{self._left(elapsed)}"
        if self._terminal:
            filled = round(share * 24)
            self._write(f"\r\x1b[K[{'#' * filled}{'.' * (24 - filled)}] {line}")
        elif elapsed - self._said >= 5 or self._done == self._total:
            self._said = elapsed
            self._write(f"  {line}\n")

    def _left(self, elapsed: float) -> str:
        """By the pace since the first step ended."""
        if self._first is None or self._done == 1 or self._done < KNOWN_FROM * self._total:
            return ""
        pace = (elapsed - self._first) / (self._done - 1)
        return f", {_time(pace * (self._total - self._done))} left"

    def say(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self._terminal else f"{text}\n")

    def clear(self) -> None:
        if self._terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
