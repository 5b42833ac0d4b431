"""How the stateful operators of a query use their state, as tailrace understood it.

Problem: how a store is laid out and how its rows are evicted follow from the query's plan, where
users do not see it.
Answer: the classifier whose result goes to the stores is asked, and answers in words.
Invariant: the uses shown for a running query are those that its stores got for the last batch.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tailrace import _jvm
from tailrace.errors import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

OUTPUT_MODES = ("append", "update", "complete")


@dataclasses.dataclass(frozen=True)
class StoreUse:
    """One store of one stateful operator."""

    operator: int
    """Its number in the plan and in the checkpoint: the folder `state/<operator>`."""
    kind: str
    store: str
    pattern: str
    """update, windowed update, aligned append, unaligned append, range, or unknown: then the store
    watches how it is used."""
    eviction: str
    lookahead: str
    """Where the keys of rows to come are seen before they are looked up, or no. Of a query that
    runs, the place from which the last batch had hints."""
    lookahead_reason: str
    """Why there."""
    reason: str


def classify(of: StreamingQuery | DataFrame, output_mode: str = "append") -> list[StoreUse]:
    """The stores of a query, or of a streaming DataFrame as it would run in an output mode.

    A query that has not planned a batch yet has none to show.
    """
    from pyspark.sql import DataFrame

    if output_mode not in OUTPUT_MODES:
        raise SessionError(
            f"There is no output mode {output_mode!r}.",
            f"There are: {', '.join(OUTPUT_MODES)}.",
            'Leave it out for "append".',
        )
    if isinstance(of, DataFrame):
        if not of.isStreaming:
            raise SessionError(
                "The DataFrame is not a streaming one.",
                "Only streaming queries keep state.",
                "Give a DataFrame that begins with spark.readStream, or a StreamingQuery.",
            )
        rows = _jvm.engine(of.sparkSession).explain_frame(of, output_mode)
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None or getattr(of, "_jsq", None) is None:
            raise SessionError(
                "The query's plan cannot be reached.",
                "It belongs to a Spark Connect session, or the session was stopped.",
                "Ask in a classic session, while the query's session lives.",
            )
        rows = _jvm.engine(session).explain_query(of)
    return [
        StoreUse(
            operator=int(number),
            kind=kind,
            store=store if family == "default" else f"{store}/{family}",
            pattern=pattern,
            eviction=eviction,
            lookahead=lookahead,
            lookahead_reason=why,
            reason=reason,
        )
        for number, kind, store, family, pattern, eviction, lookahead, why, reason in rows
    ]


def explain(of: StreamingQuery | DataFrame, output_mode: str = "append") -> None:
    """Prints each stateful operator's pattern, how its rows are evicted, and how that is known."""
    print(table(classify(of, output_mode)))


def table(uses: list[StoreUse]) -> str:
    if not uses:
        return "No stateful operator, or no batch was planned yet."
    head = ("operator", "store", "pattern", "evicts", "looks ahead", "because")
    rows = [
        (
            f"{use.operator} {use.kind}",
            use.store,
            use.pattern,
            use.eviction,
            use.lookahead,
            use.reason,
        )
        for use in uses
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [head, tuple("-" * width for width in widths), *rows]
    told = dict.fromkeys(
        f"operator {use.operator} looks ahead {use.lookahead}: {use.lookahead_reason}"
        for use in uses
        if use.lookahead != "no"
    )
    return "\n".join(
        [
            *(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(line, widths, strict=True)
                ).rstrip()
                for line in lines
            ),
            *told,
        ]
    )
