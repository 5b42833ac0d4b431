"""Events as a pure function of their number.

Problem: a comparison needs the same events on every store, in every run and in the reference,
at the engine's speed and without files that must be made first.
Answer: an `EventOptions` object says everything about a stream; its `table` turns a DataFrame of
numbers into one of events with column expressions only. A `Source` says where the numbers come
from: Spark's rate-micro-batch source, or a range for a bounded run.
Invariant: the event of a number depends on the number and the options, and on nothing else.
Event time is START + sequence / rate, where the sequence is the number after the permutation.
"""

from __future__ import annotations

import dataclasses
import difflib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace.bench.events.numbers import permuted
from tailrace.errors import OptionError

START_MICROS = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SILENCE_SECONDS = 30 * 24 * 3600
"""How much later than the rest the events from `end` on are: longer than any window is."""

FILE_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""How files of `write_files` are written and to be read: JSON has milliseconds otherwise."""


def option(default: Any, doc: str, least: float = 0, most: float = 2**62) -> Any:
    """A field of an options class: its default, its meaning and its range."""
    return dataclasses.field(default=default, metadata={"doc": doc, "least": least, "most": most})


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventOptions(ABC):
    """The options that the streams of all workloads share. An object that exists is valid."""

    TABLES: ClassVar[tuple[str, ...]] = ()

    seed: int = option(42, "Another seed gives other events with the same distributions.")
    rate: int = option(10_000, "Events per second of event time.", least=1, most=1_000_000)
    disorder: int = option(
        1, "Events are permuted inside groups of this many; 1 is in order.", least=1, most=2**31 - 1
    )
    first_event: int = option(
        0, "Events that are thought to precede the first one: a stream that starts in full swing."
    )
    end: int | None = option(
        None,
        "Numbers from here on are events a month later, which closes every window before them. "
        "For bounded runs; None: the stream never ends.",
        least=1,
    )

    def __post_init__(self) -> None:
        for described in dataclasses.fields(self):
            value = getattr(self, described.name)
            least, most = described.metadata["least"], described.metadata["most"]
            # None is a value only where it is the default.
            if value is None and described.default is None:
                continue
            whole = "float" not in str(described.type)
            number = isinstance(value, int if whole else (int, float))
            if not number or isinstance(value, bool) or not least <= value <= most:
                raise OptionError(
                    f"Option {described.name} does not take the value {value!r}.",
                    f"It is {'an integer' if whole else 'a number'} from {least} to {most}: "
                    f"{described.metadata['doc']}",
                    f"Choose such a value, or leave it out for {described.default!r}.",
                )

    @abstractmethod
    def columns(self, table: str, events: DataFrame) -> DataFrame:
        """The rows of one table from the columns `sequence` and `time`."""

    def static(self, table: str, spark: SparkSession) -> DataFrame:  # noqa: ARG002 - has none
        """A bounded table that a stream is joined with."""
        raise _unknown_table(table, ())

    def table(self, name: str, numbers: DataFrame) -> DataFrame:
        """The events of one table among the numbers in column `value`."""
        if name not in self.TABLES:
            raise _unknown_table(name, self.TABLES)
        return self.columns(name, self._placed(numbers))

    @property
    def disorder_seconds(self) -> float:
        """How late an event can come at most."""
        return self.disorder / self.rate

    def _placed(self, numbers: DataFrame) -> DataFrame:
        value = F.col("value")
        sequence = permuted(value, self.seed, self.disorder) + F.lit(self.first_event)
        placed = numbers.select("value", sequence.alias("sequence"))
        micros = F.lit(START_MICROS) + F.expr(f"sequence * 1000000 div {self.rate}")
        if self.end is not None:
            silence = F.when(value >= self.end, F.lit(SILENCE_SECONDS * 1_000_000)).otherwise(0)
            micros = micros + silence
        return placed.select("sequence", F.timestamp_micros(micros).alias("time"))


SomeOptions = TypeVar("SomeOptions", bound=EventOptions)


def changed(options: SomeOptions, **values: Any) -> SomeOptions:
    """The same options with some values replaced; an unknown name is refused."""
    names = [described.name for described in dataclasses.fields(options)]
    for name in values:
        if name not in names:
            closest = difflib.get_close_matches(name, names, n=1)
            raise OptionError(
                f"These events have no option {name}.",
                f"{type(options).__name__} has: {', '.join(names)}.",
                f"Did you mean {closest[0]}?" if closest else "Use one of these, or leave it out.",
            )
    return dataclasses.replace(options, **values)


def parsed(options: SomeOptions, pairs: Mapping[str, str]) -> SomeOptions:
    """`changed` with values as a command line gives them."""
    return changed(options, **{name: _number(name, text) for name, text in pairs.items()})


def _number(name: str, text: str) -> int | float | None:
    if text.lower() == "none":
        return None
    try:
        return int(text.replace("_", ""))
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            f"Option {name} does not take the value {text!r}.",
            "All options of events are numbers, or none.",
            f"Write it like {name}=1000.",
        ) from None


def _unknown_table(name: str, tables: tuple[str, ...]) -> OptionError:
    return OptionError(
        f"There is no table {name}.",
        f"The tables are: {', '.join(tables) or 'none'}.",
        "Use one of these.",
    )


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a workload's tables come from: a stream, or the same events in a bounded table."""

    spark: SparkSession
    options: EventOptions
    count: int | None
    """How many events there are; None in a stream."""
    rows_per_batch: int = 0
    partitions: int = 0

    def numbers(self) -> DataFrame:
        """Event numbers in a column `value`; a new reader of its own at every call."""
        if self.count is not None:
            return self.spark.range(self.count).toDF("value")
        reader = self.spark.readStream.format("rate-micro-batch")
        reader = reader.option("rowsPerBatch", self.rows_per_batch)
        if self.partitions:
            reader = reader.option("numPartitions", self.partitions)
        return reader.load().select("value")

    def table(self, name: str) -> DataFrame:
        return self.options.table(name, self.numbers())

    def static(self, name: str) -> DataFrame:
        return self.options.static(name, self.spark)


def stream(
    spark: SparkSession, options: EventOptions, rows_per_batch: int, partitions: int = 0
) -> Source:
    """An endless stream that gives `rows_per_batch` events to every batch.

    The settings of the session that count (which state store, how many partitions) are those of
    `spark`. With `partitions` 0 the source has as many as the session's default parallelism.
    """
    if not 1 <= rows_per_batch < 2**31:
        raise OptionError(
            f"A batch cannot have {rows_per_batch} rows.",
            "The source takes 1 to 2147483647.",
            "Choose such a number.",
        )
    return Source(spark, options, None, rows_per_batch, partitions)


def batch(spark: SparkSession, options: EventOptions, n: int) -> Source:
    """The first n events of the same stream, as bounded tables."""
    return Source(spark, options, n)


def write_files(
    spark: SparkSession,
    options: EventOptions,
    n: int,
    folder: Path,
    files: int,
    form: str = "parquet",
) -> None:
    """Writes the first n events for a file source: folder/TABLE/00000.parquet and so on.

    Each file holds a block of consecutive numbers, written in their order, so that a source with
    maxFilesPerTrigger = 1 sees them as batches. `form` is "parquet" or "json" (to be read with
    FILE_OPTIONS). Local folders only.
    """
    for name in options.TABLES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(files):
            low, high = n * index // files, n * (index + 1) // files
            numbers = spark.range(low, high, 1, 1).toDF("value")
            written = folder / f".{name}-{index}"
            writer = options.table(name, numbers).write.format(form).options(**FILE_OPTIONS)
            writer.save(written.resolve().as_uri())
            (part,) = written.glob(f"part-*.{form}")
            part.replace(folder / name / f"{index:05}.{form}")
            shutil.rmtree(written)
