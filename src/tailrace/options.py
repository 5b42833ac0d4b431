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
from collections.abc import Callable, Iterable
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


def or_none(rule: Rule) -> Rule:
    return Rule(f"{rule.allowed}, or None", lambda value: value is None or rule.accepts(value))


def byte_size_or_none() -> Rule:
    return or_none(byte_size())


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


def uri_or_none() -> Rule:
    return Rule(
        'a URI with its scheme and a path like "hdfs://host/folder" or "s3a://bucket/folder", '
        "or None",
        lambda value: value is None or _uri(value),
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


def _uri(value: object) -> bool:
    pattern = r"[a-z][a-z0-9+.-]*:(//[^/\s]*/|/(?!/))\S*"
    return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


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
        "takes 70 % of the machine's memory. When little of it is left, state is spilled to files "
        "(see spill). A process has one limit: if its sessions ask for different ones, the first "
        "counts as long as a store is open that asked for it, and the log has a warning.",
    )
    spill: str = _option(
        "on",
        conf="spill",
        rule=one_of("on", "off", "always"),
        doc="Whether state that does not fit into memory is spilled to files in local_dir, or in "
        "cold_dir, while batches run. off: a query whose state outgrows the memory limit fails. "
        "always: all state that a batch does not use is spilled all the time, to small files, "
        "which only tests want.",
    )
    io_threads: int | None = _option(
        None,
        conf="ioThreads",
        rule=or_none(integer_from(1, 64)),
        doc="How many jobs an executor runs at a time beside its batches: uploads, spilling, "
        "cleaning, snapshots. The most urgent go first. None: 2. Sessions of one process share it: "
        "the first that asks for a number decides as long as its stores are open.",
    )
    io_bandwidth: str | None = _option(
        None,
        conf="ioBandwidth",
        rule=byte_size_or_none(),
        doc="Bytes per second that all these jobs of an executor read and write together, such as "
        '"100m". None: no limit. Sessions of one process share it, like io_threads.',
    )
    read_batch_ratio: float = _option(
        0.02,
        conf="readBatchRatio",
        rule=number_in(0, 1),
        doc="Lists of rows that have moved to files are read in batches of this share of all "
        "lists: the one that is asked for, and those that are expected to be asked for next. "
        "0: each by itself.",
    )
    cache: str = _option(
        "timestamp",
        conf="cache",
        rule=one_of("timestamp", "lru", "clock"),
        doc="Which records are spilled first when memory is short. timestamp: those with the "
        "oldest time, of their last use or of the next one that is known; times are the rows' "
        "event times where there is a watermark. lru: those that were not used for longest. clock: "
        "in the order of the table, those that were not used since the last round. lru and clock "
        "are there to compare with.",
    )
    prefetch: str = _option(
        "auto",
        conf="prefetch",
        rule=one_of("auto", "on", "off", "demand"),
        doc="Whether records that were spilled are read before they are looked up: a task tells "
        "its store the keys of the rows to come, and threads beside it read them in the order of "
        "the disk. auto: while reads take long enough for that to gain time, which reads from the "
        "page cache do not. on: whenever state is in files. off: each is read with its look-up. "
        "demand: asynchronous reads for the rows at hand alone, a group of 1,024 at a time, while "
        "those whose records are in memory go on; to compare with.",
    )
    hints: str = _option(
        "auto",
        conf="hints",
        rule=one_of("auto", "on", "off"),
        doc="Whether operators before a stateful one tell the executor that owns a partition the "
        "keys of the rows that will come to it, so that spilled records are read before its task "
        "begins. auto: while tasks wait for records although they look ahead themselves. on: "
        "whenever state is in files. off: tasks look ahead by themselves alone.",
    )
    hint_threshold: int = _option(
        24,
        conf="hintThreshold",
        rule=integer_from(1, 255),
        doc="No hints are sent of keys that came more often than this among the last 80,000 or so: "
        "their records are in memory. Larger means more hints.",
    )
    cold_io: str = _option(
        "buffered",
        conf="coldIo",
        rule=one_of("buffered", "direct"),
        doc="How files of spilled state are read and written. buffered: through the system's page "
        "cache. direct: past it, so that it is left to others and a measurement sees the disk; the "
        "file system of local_dir has to support it.",
    )
    cold_dir: str | None = _option(
        None,
        conf="coldDir",
        rule=uri_or_none(),
        doc="A folder on any file system that Hadoop reaches, for state that does not fit into "
        "memory: it may then outgrow the executor's disk, and each read takes a round trip. It is "
        "no part of the checkpoint, and queries may share it. A process has a folder of its own in "
        "it, which it deletes when it ends; that of a process that was killed is deleted by "
        "another one, after a day. None: files in local_dir, on the executor's machine.",
    )
    max_space_amplification: float = _option(
        1.5,
        conf="maxSpaceAmplification",
        rule=number_above(1),
        doc="How many times larger the files of spilled state may grow than what still counts in "
        "them: they are cleaned before that.",
    )
    restart: str = _option(
        "eager",
        conf="restart",
        rule=one_of("eager", "lazy", "always"),
        doc="What a restart reads before its first batch. eager: all state. lazy: the index of the "
        "newest snapshot; its records are read when their keys are asked for, and the rest "
        "behind, while no task uses the store. That is for state that is found by its key alone; "
        "the rest (lists, rows that expire, keys that are scanned in order) is read whole. "
        "always: lazy, from snapshots with very small blocks, which only tests want.",
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
        doc="How long a write to the checkpoint file system (commit=async), and a write to or a "
        "read from cold_dir, is repeated, with growing pauses, before the query fails.",
    )
    local_dir: str | None = _option(
        None,
        conf="localDir",
        rule=folder_or_none(),
        doc="Where an executor keeps copies of what it wrote, from which a restart on the same "
        "machine loads, and state that does not fit into memory, in folders that only this user "
        "can read. It may be shared with others if it is sticky, as /tmp is. None: a folder of "
        "this user's in the temporary folder, and no copies if the checkpoint is on this machine.",
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
        if self.prefetch in ("off", "demand") and self.hints == "on":
            raise _contradiction(
                "hints",
                "prefetch",
                f"prefetch is {self.prefetch}; hints say which records are read before the task "
                "begins.",
            )
        if self.cold_dir is not None and self.cold_io == "direct":
            raise _contradiction(
                "cold_io",
                "cold_dir",
                f"cold_dir is {self.cold_dir!r}; direct is a way to use files on the executor's "
                "own machine.",
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


def _contradiction(one: str, other: str, cause: str) -> OptionError:
    return OptionError(
        f"The options {one} and {other} contradict each other.",
        cause,
        f"Leave {one} out, or {other}.",
    )


def refuse_unknown(keys: Iterable[str]) -> None:
    """Refuses Spark confs with our prefix that no option has: the engine would, too, but later."""
    known = [option.conf for option in describe()]
    for key in keys:
        if key.startswith(CONF_PREFIX) and key not in known:
            closest = difflib.get_close_matches(key, known, n=1, cutoff=0)
            raise OptionError(
                f"There is no option {key}.",
                f"The options are: {', '.join(known)}.",
                f"Did you mean {closest[0]}? Correct the key, or take it out.",
            )


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
