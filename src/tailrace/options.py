"""The options of tailrace: one place for names, defaults, reasons and rules.

Problem: settings that are declared in one file, checked in another and documented in a third
drift apart.
Answer: one frozen dataclass. Each field carries its documentation, its Spark conf key and its
rule; the checks, the error messages and `tailrace options` are generated from it.
Invariant: an `Options` object that exists is valid.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable
from typing import Any

from tailrace.errors import OptionError

CONF_PREFIX = "spark.sql.streaming.stateStore.tailrace."


@dataclasses.dataclass(frozen=True)
class Rule:
    """Which values an option takes, as a test and in words."""

    allowed: str
    accepts: Callable[[Any], bool]


def one_of(*choices: str) -> Rule:
    return Rule(
        "one of " + ", ".join(f'"{choice}"' for choice in choices),
        lambda value: isinstance(value, str) and value in choices,
    )


def number_above(bound: float) -> Rule:
    return Rule(
        f"a number greater than {bound}",
        lambda value: _is_number(value) and value > bound,
    )


def number_in(lowest: float, highest: float) -> Rule:
    return Rule(
        f"a number from {lowest} to {highest}",
        lambda value: _is_number(value) and lowest <= value <= highest,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def integer_from(minimum: int, maximum: int = 2**31 - 1) -> Rule:
    return Rule(
        f"an integer from {minimum} to {maximum}",
        lambda value: (
            isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
        ),
    )


def byte_size_or_none() -> Rule:
    return Rule(
        'a size with its unit like "512m" or "8g" (k, m, g, t), or None',
        lambda value: value is None or _quantity(value, _BYTE_UNITS),
    )


def byte_size() -> Rule:
    return Rule(
        'a size with its unit like "512m" or "8g" (k, m, g, t)',
        lambda value: _quantity(value, _BYTE_UNITS),
    )


def folder_or_none() -> Rule:
    return Rule(
        "the name of a folder, or None",
        lambda value: value is None or (isinstance(value, str) and value.strip() != ""),
    )


def duration() -> Rule:
    return Rule(
        'a time with its unit like "500ms", "60s" or "5min" (ms, s, m, min, h, d)',
        lambda value: _quantity(value, _TIME_UNITS),
    )


# The suffixes that Spark's own parser (JavaUtils) reads; the engine uses that parser.
_BYTE_UNITS = frozenset({"k", "kb", "m", "mb", "g", "gb", "t", "tb"})
_TIME_UNITS = frozenset({"ms", "s", "m", "min", "h", "d"})


def _quantity(value: object, units: frozenset[str]) -> bool:
    if not isinstance(value, str):
        return False
    match = re.fullmatch(r"([0-9]{1,12})([a-z]+)", value, re.ASCII)
    return match is not None and int(match[1]) > 0 and match[2] in units


def _option(default: Any, *, conf: str, rule: Rule, doc: str) -> Any:
    return dataclasses.field(default=default, metadata={"conf": conf, "rule": rule, "doc": doc})


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything that can be set, with the value it has when nothing is set."""

    compression: str = _option(
        "lz4",
        conf="compression",
        rule=one_of("lz4", "zstd", "none"),
        doc="Codec of checkpoint files. lz4 costs the least time; zstd makes smaller files, for "
        "checkpoints behind a slow network; none is for file systems that compress themselves.",
    )
    snapshot_ratio: float = _option(
        1.0,
        conf="snapshotRatio",
        rule=number_above(0),
        doc="A new snapshot is written once the changes since the last one exceed this share of "
        "its size. Smaller means a faster restart, larger means fewer bytes written.",
    )
    max_deltas: int = _option(
        100,
        conf="maxDeltas",
        rule=integer_from(1),
        doc="A snapshot is written after at most this many changes files, which bounds how many "
        "files a restart has to replay.",
    )
    memory_limit: str | None = _option(
        None,
        conf="memoryLimit",
        rule=byte_size_or_none(),
        doc="Off-heap memory for all stores of one executor process together. None: the engine "
        "takes 70 % of the machine's memory. From three quarters of it on, state moves to files "
        "(see spill).",
    )
    spill: str = _option(
        "on",
        conf="spill",
        rule=one_of("on", "off", "always"),
        doc="Whether state that does not fit into memory moves to files in local_dir. off: a query "
        "whose state outgrows the memory limit fails. always: all state moves after every batch, "
        "in small files, which only tests want.",
    )
    read_batch_ratio: float = _option(
        0.02,
        conf="readBatchRatio",
        rule=number_in(0, 1),
        doc="Lists of rows that have moved to files are read in batches of this share of all "
        "lists: the one that is asked for, and those that are expected to be asked for next. "
        "0: each by itself.",
    )
    max_space_amplification: float = _option(
        1.5,
        conf="maxSpaceAmplification",
        rule=number_above(1),
        doc="How many times larger the files of state that has left memory may grow than what "
        "still counts in them, before they are rewritten.",
    )
    lock_timeout: str = _option(
        "60s",
        conf="lockTimeout",
        rule=duration(),
        doc="How long a task waits for an earlier attempt of the same task to let go of their "
        "store before it fails. Longer than a slow task needs to notice that it was cancelled.",
    )

    commit: str = _option(
        "async",
        conf="commit",
        rule=one_of("async", "sync"),
        doc="async: a batch's state is written while the next batch runs; no output of a batch is "
        "committed before the batch before it is on the checkpoint file system for good. sync: "
        "each batch waits until its own state is written.",
    )
    gate: str = _option(
        "commit",
        conf="gate",
        rule=one_of("commit", "read"),
        doc="Where a task waits for the batch before to be published (commit=async). commit: when "
        "it commits its state, which is before Spark commits its output. read: before it reads "
        "state, for output that a task pushes out by itself, such as foreachPartition inside "
        "foreachBatch.",
    )
    pending_limit: str = _option(
        "256m",
        conf="pendingLimit",
        rule=byte_size(),
        doc="How many bytes of earlier batches an executor keeps in memory until they are written "
        "(commit=async). A task that brings more waits, so that a slow file system slows the "
        "query down instead of filling the heap.",
    )
    retry_timeout: str = _option(
        "60s",
        conf="retryTimeout",
        rule=duration(),
        doc="How long a write to the checkpoint file system is repeated, with growing pauses, "
        "before the query fails (commit=async).",
    )
    local_dir: str | None = _option(
        None,
        conf="localDir",
        rule=folder_or_none(),
        doc="Where an executor keeps copies of what it wrote, from which a restart on the same "
        "machine loads, and state that does not fit into memory. None: the temporary folder, and "
        "no copies if the checkpoint is on this machine.",
    )

    holistic: str = _option(
        "rows",
        conf="holistic",
        rule=one_of("rows", "buffers"),
        doc="How aggregates that need all rows of a window (median, percentile, collect_list, "
        "mode) are kept in append mode. rows: as they come, computed when the window closes. "
        "buffers: as Spark does, a growing buffer that every batch reads and writes. A query keeps "
        "what its first batch chose.",
    )

    def __post_init__(self) -> None:
        for option in describe():
            value = getattr(self, option.name)
            if not option.rule.accepts(value):
                raise OptionError(
                    f"Option {option.name} does not take the value {value!r}.",
                    f"{option.name} is {option.rule.allowed}; its default is {option.default!r}.",
                    f"Pass {option.name} as {option.rule.allowed}, or leave it out.",
                )

    @classmethod
    def of(cls, **options: Any) -> Options:
        """The options a caller named; the rest have their defaults."""
        names = [option.name for option in describe()]
        for name in options:
            if name not in names:
                raise _unknown(name, names)
        return cls(**options)

    def confs(self) -> dict[str, str]:
        """The same as Spark confs. An option without a value is not set."""
        values = ((option, getattr(self, option.name)) for option in describe())
        return {option.conf: str(value) for option, value in values if value is not None}


@dataclasses.dataclass(frozen=True)
class OptionDescription:
    """One option as documentation shows it."""

    name: str
    conf: str
    default: Any
    rule: Rule
    doc: str


def describe() -> list[OptionDescription]:
    """All options, in the order of their declaration."""
    return [
        OptionDescription(
            name=field.name,
            conf=CONF_PREFIX + field.metadata["conf"],
            default=field.default,
            rule=field.metadata["rule"],
            doc=field.metadata["doc"],
        )
        for field in dataclasses.fields(Options)
    ]


def _unknown(name: str, names: list[str]) -> OptionError:
    # Spark's spelling (maxDeltas) is a likely slip: compare in ours.
    python_spelling = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    closest = difflib.get_close_matches(python_spelling, names, n=1, cutoff=0.5)
    allowed = ", ".join(names)
    return OptionError(
        f"There is no option {name}.",
        f"The options are: {allowed}.",
        f"Did you mean {closest[0]}?" if closest else "Use one of these, or leave it out.",
    )
