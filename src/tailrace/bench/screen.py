"""Where a run stands: batch, rate, time left.

Problem: a run takes minutes and prints its result at the end.
Answer: one line on standard error that changes, or plain lines where that is not a terminal.
Invariant: standard output is left to the result.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Screen:
    """Progress of a number of steps that is known from the start."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._total = max(1, total)
        self._done = 0
        self._started = time.monotonic()
        self._said = 0.0

    def step(self, text: str, rate: float | None = None) -> None:
        """One batch more."""
        self._done += 1
        share = min(1.0, self._done / self._total)
        elapsed = time.monotonic() - self._started
        left = elapsed * (1 - share) / share
        speed = f", {rate:,.0f} rows/s" if rate else ""
        line = f"{self._done}/{self._total} batches, {text}{speed}, {_time(left)} left"
        if self._terminal:
            filled = round(share * 24)
            self._write(f"\r\x1b[K[{'#' * filled}{'.' * (24 - filled)}] {line}")
        elif elapsed - self._said >= 5 or self._done == self._total:
            self._said = elapsed
            self._write(f"  {line}\n")

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
