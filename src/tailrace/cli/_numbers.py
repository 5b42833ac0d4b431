"""Numbers of a command line, refused while nothing has started yet.

Problem: 0 cores, -1 rows or a trigger of "nan" seconds parse as numbers, and then have another
meaning (0 as "not given"), or fail minutes later inside Spark.
Answer: each command says which numbers its options take; one check states problem, cause, remedy.
Invariant: an option that was not given is not checked, and one that was is never replaced.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import OptionError

LARGEST = 2**31 - 1
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
SMALLEST_HEAP = 512 * 2**20
"""Spark refuses a heap below 450 MiB."""


@dataclass(frozen=True)
class Allowed:
    """The numbers that an option takes."""

    least: float = 1
    most: float = LARGEST
    because: str = ""
    """Where the bounds come from, if that is not plain."""

    def __contains__(self, value: float) -> bool:
        return math.isfinite(value) and self.least <= value <= self.most

    def __str__(self) -> str:
        because = f" ({self.because})" if self.because else ""
        return f"from {self.least:,} to {self.most:,}{because}"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check(arguments: argparse.Namespace, allowed: Mapping[str, Allowed]) -> None:
    """Refuses the first option whose value is not allowed."""
    for name, numbers in allowed.items():
        value = getattr(arguments, name, None)
        if value is None:
            continue
        for each in value if isinstance(value, list) else [value]:
            if each not in numbers:
                raise OptionError(
                    f"--{name} cannot be {each}.",
                    f"It is {numbers}.",
                    "Choose such a number, or leave the option out.",
                )


def check_memory(text: str) -> None:
    """The heap of a JVM, as `-Xmx` takes it: not too small for Spark, not larger than the RAM."""
    match = re.fullmatch(r"([0-9]+)([kmgt])b?", text.strip().lower())
    if match is None:
        raise OptionError(
            f"--memory cannot be {text!r}.",
            "It is a whole number with a unit: k, m, g or t.",
            "Write it like --memory 4g.",
        )
    size = int(match[1]) * _UNITS[match[2]]
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not SMALLEST_HEAP <= size <= most:
        raise OptionError(
            f"--memory cannot be {text}.",
            f"Spark needs a heap of {SMALLEST_HEAP // 2**20} MiB, and this machine has "
            f"{most // 2**20} MiB.",
            "Choose a size between them.",
        )
