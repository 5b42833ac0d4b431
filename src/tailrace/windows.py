"""A pandas function over all the rows of a closed window: `tailrace.window_apply`.

Problem: Spark's aggregates see a window's rows one at a time, and `applyInPandas` does not exist
for streams; a user who needs a whole window at once writes a state machine.
Answer: the rows of each window are kept as they come, and handed to a pandas function when the
watermark has closed the window (FlowKV's ProcessWindowFunction). Underneath is `collect_list`,
which tailrace keeps as rows in append mode (RFC 6).
Invariant: the function is called once for each window and key, with every row that was not late, in
no particular order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tailrace.errors import SessionError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_ROWS = "_tailrace_rows"
_WINDOW = "_tailrace_window"
_NUMBERS = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
}


def window_apply(
    df: DataFrame,
    window: Column,
    keys: str | Sequence[str],
    func: Callable[..., pd.DataFrame],
    schema: str | StructType,
) -> DataFrame:
    """Calls `func` once for every closed window and key, with all the rows of it.

        def slope(key, rows):
            start, end, sensor = key
            return pd.DataFrame({"sensor": [sensor], "start": [start], "slope": [fit(rows)]})

        readings = stream.withWatermark("time", "10 seconds")
        tailrace.window_apply(readings, F.window("time", "1 minute"), "sensor", slope, "...")

    `func` takes the rows as a pandas DataFrame, or a key and the rows; the key is a tuple of
    the window's start and end and of the values of `keys`. The DataFrame that it returns has the
    columns of `schema`.
    Run the result in append mode.
    """
    from pyspark.sql import functions as f

    names = [keys] if isinstance(keys, str) else list(keys)
    if not df.isStreaming:
        raise SessionError(
            "window_apply takes a streaming DataFrame.",
            "In a bounded one all rows are there at once.",
            "Use df.groupBy(window, ...).applyInPandas(func, schema).",
        )
    unknown = [name for name in names if name not in df.columns]
    if unknown:
        raise SessionError(
            f"There is no column {unknown[0]}.",
            f"The DataFrame has: {', '.join(df.columns)}.",
            "Name the key's columns by these names.",
        )
    columns = df.columns
    numbers = {name: _NUMBERS[kind] for name, kind in df.dtypes if kind in _NUMBERS}
    windows = (
        df.groupBy(window.alias(_WINDOW), *names)
        .agg(f.collect_list(f.struct(*columns)).alias(_ROWS))
        .select(f"{_WINDOW}.start", f"{_WINDOW}.end", *names, _ROWS)
        .toDF("start", "end", *(f"key{place}" for place in range(len(names))), _ROWS)
    )
    with_key = _takes_key(func)

    def apply(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for frame in frames:
            for *key, rows in frame.itertuples(index=False, name=None):
                whole = pd.DataFrame(list(rows), columns=columns)
                for name, kind in numbers.items():  # with nulls an integer is a float, as usual
                    column = pd.to_numeric(whole[name])
                    whole[name] = column if column.isna().any() else column.astype(kind)
                yield func(tuple(key), whole) if with_key else func(whole)

    return windows.mapInPandas(apply, schema)


def _takes_key(func: Callable[..., Any]) -> bool:
    parameters = [
        parameter
        for parameter in inspect.signature(func).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(parameters) not in (1, 2):
        raise SessionError(
            f"The function takes {len(parameters)} arguments.",
            "It is called with the rows of a window, or with a key and the rows.",
            "Write it as func(rows) or func(key, rows).",
        )
    return len(parameters) == 2
