"""applyInPandasWithState: a Python function that keeps state per key, with and without timeouts.

Problem: the function decides which rows are stored, updated and removed, and when a key times out;
the store sees rows it cannot interpret, and finds expired keys only by scanning.
Answer: functions that update, remove and set timeouts in event time and processing time. In
processing time every timeout is one millisecond and batches without rows are off, so each key times
out in exactly the next batch in which it gets no rows, however fast the machine is.
Invariant: every batch emits the same rows as on RocksDB, and as many keys stay in the state.

The functions live inside their builders: a worker process receives them by value and cannot import
this module.
"""

from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from .data import WATERMARK, events
from .harness import NO_DATA_BATCHES_CONF, Case, check, parametrize

OUTPUT = "key STRING, rows BIGINT, amount BIGINT, what STRING"
STATE = "rows BIGINT, amount BIGINT"


def running_totals(output_mode):
    def build(s):
        def update(key, frames, state):
            import pandas

            rows, amount = state.get if state.exists else (0, 0)
            for frame in frames:
                rows += len(frame)
                amount += int(frame["amount"].fillna(0).sum())
            state.update((rows, amount))
            columns = {"key": [key[0]], "rows": [rows], "amount": [amount], "what": ["total"]}
            yield pandas.DataFrame(columns)

        return (
            s["events"]
            .groupBy("key")
            .applyInPandasWithState(update, OUTPUT, STATE, output_mode, GroupStateTimeout.NoTimeout)
        )

    return build


def removes_itself(s):
    """A key is forgotten as soon as it has had five rows, and starts again."""

    def update(key, frames, state):
        import pandas

        rows, amount = state.get if state.exists else (0, 0)
        for frame in frames:
            rows += len(frame)
            amount += int(frame["amount"].fillna(0).sum())
        if rows >= 5:
            if state.exists:
                state.remove()
            columns = {"key": [key[0]], "rows": [rows], "amount": [amount], "what": ["removed"]}
            yield pandas.DataFrame(columns)
        else:
            state.update((rows, amount))

    return (
        s["events"]
        .groupBy("key")
        .applyInPandasWithState(update, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout)
    )


def expires_in_processing_time(s):
    def update(key, frames, state):
        import pandas

        if state.hasTimedOut:
            rows, amount = state.get
            state.remove()
            what = "expired"
        else:
            rows, amount = state.get if state.exists else (0, 0)
            for frame in frames:
                rows += len(frame)
                amount += int(frame["amount"].fillna(0).sum())
            state.update((rows, amount))
            state.setTimeoutDuration(1)
            what = "seen"
        columns = {"key": [key[0]], "rows": [rows], "amount": [amount], "what": [what]}
        yield pandas.DataFrame(columns)

    some = s["events"].where("pmod(id, 5) = 0")
    return some.groupBy("key").applyInPandasWithState(
        update, OUTPUT, STATE, "update", GroupStateTimeout.ProcessingTimeTimeout
    )


def expires_in_event_time(key_column, idle_milliseconds):
    def build(s):
        def update(key, frames, state):
            import pandas

            if state.hasTimedOut:
                rows, amount, _latest = state.get
                state.remove()
                columns = {"key": [key[0]], "rows": [rows], "amount": [amount], "what": ["expired"]}
                yield pandas.DataFrame(columns)
                return
            rows, amount, latest = state.get if state.exists else (0, 0, 0)
            for frame in frames:
                rows += len(frame)
                amount += int(frame["amount"].fillna(0).sum())
                latest = max(latest, int(frame["milliseconds"].max()))
            state.update((rows, amount, latest))
            earliest = state.getCurrentWatermarkMs() + 1
            state.setTimeoutTimestamp(max(latest + idle_milliseconds, earliest))

        keyed = (
            s["events"]
            .withWatermark("time", WATERMARK)
            .withColumn("milliseconds", F.unix_millis("time"))
            .withColumn("group_key", F.expr(key_column))
        )
        return keyed.groupBy("group_key").applyInPandasWithState(
            update, OUTPUT, f"{STATE}, latest BIGINT", "append", GroupStateTimeout.EventTimeTimeout
        )

    return build


SIMPLE = {"events": events(offset=40)}
SPARSE = {"events": events(offset=41, steps=5, rows=25)}
MOVING = {"events": events(offset=42, steps=4, rows=20, flush=True)}
LATE = {"events": events(offset=43, rows=20, late=0.3, jumps={2: 600}, flush=True)}

event_time = Case("event_time_timeout", "append", expires_in_event_time("key", 10_000), MOVING)

CASES = [
    Case("no_timeout_update", "update", running_totals("update"), SIMPLE),
    Case("no_timeout_append", "append", running_totals("append"), SIMPLE),
    Case("no_timeout_live", "update", running_totals("update"), SIMPLE, drive="live"),
    Case("removes_itself", "append", removes_itself, SIMPLE),
    Case(
        "processing_time_timeout",
        "update",
        expires_in_processing_time,
        SPARSE,
        conf={NO_DATA_BATCHES_CONF: "false"},
    ),
    event_time,
    event_time.restarted_after_each_step(),
    Case(
        "event_time_timeout_per_row",
        "append",
        expires_in_event_time("cast(pmod(id, 37) as string)", 1_000),
        MOVING,
    ),
    Case(
        "event_time_timeout_late_and_jumps",
        "append",
        expires_in_event_time("key", 30_000),
        LATE,
        restart_after=(2, 3),
    ),
    # With a timeout, format 1 fails Spark's own check of the rows it writes, on any store.
    Case(
        "state_format_1",
        "update",
        running_totals("update"),
        SIMPLE,
        conf={"spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "1"},
    ),
]


@parametrize(CASES)
def test_group_state(spark, case, tmp_path):
    check(spark, case, tmp_path)
