"""Hints: a user's knowledge about a query's state that is not in its plan.

Problem: how a store should be laid out follows from how it is used; where a function of the user's
decides that, or when a session will be read, no plan says it.
Answer: `hint` marks the columns of a DataFrame; the operators that read them take notice.
Invariant: a hint changes how state is kept and read ahead, never a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PATTERNS = ("update", "windowed update", "aligned append", "unaligned append", "range")

# The keys that the engine reads (semantics/Hint.scala).
_PATTERN = "tailrace.pattern"
_TRIGGER_TIME = "tailrace.triggerTime"


def hint(
    df: DataFrame, *, pattern: str | None = None, trigger_time: str | None = None
) -> DataFrame:
    """The same rows, with your knowledge about the state of the operators that read them.

    pattern: how an operator with a function of yours (`applyInPandasWithState`) uses its state; one
    of `tailrace.hints.PATTERNS`. `tailrace.explain` shows it. Where the plan says it, that counts.

    trigger_time: SQL that gives, for a row, the time at which the session it belongs to is expected
    to be read, for aggregates over session windows that need all rows (`median`, `collect_list`,
    `window_apply`). Without it, that is when the session would end. Spilled rows are read
    ahead in this order. It may use the columns that the query itself uses, and `session_window`.
    """
    from pyspark.sql import functions as f

    if pattern is None and trigger_time is None:
        raise OptionError(
            "The hint says nothing.",
            "Neither pattern nor trigger_time was given.",
            "Give one of them, or leave the hint out.",
        )
    if pattern is not None and pattern not in PATTERNS:
        raise OptionError(
            f"There is no pattern {pattern!r}.",
            f"There are: {', '.join(PATTERNS)}.",
            "Use one of these, or leave pattern out: then the engine watches how state is used.",
        )
    if trigger_time is not None and (not isinstance(trigger_time, str) or not trigger_time.strip()):
        raise OptionError(
            f"trigger_time does not take {trigger_time!r}.",
            "It is an expression in SQL, as text.",
            'Write for example trigger_time="session_window.end + INTERVAL 1 HOUR".',
        )
    said = {_PATTERN: pattern, _TRIGGER_TIME: trigger_time}
    more = {key: value for key, value in said.items() if value is not None}
    return df.select(
        *(
            f.col("`" + field.name.replace("`", "``") + "`").alias(
                field.name, metadata={**field.metadata, **more}
            )
            for field in df.schema.fields
        )
    )
