"""Features that the README calls missing: Spark says so, too, and nothing is done by half.

Join formats 3 and 4 are no error: Spark takes format 2 for a new query if its store is not RocksDB.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.counting import Counting, new_session

from .harness import JOIN_FORMAT_CONF, TAILRACE, await_end, recorded_conf, start_query, write_steps
from .harness import new_session as new_query_session
from .test_joins import RANGE_CASES


def condition_of(error: BaseException) -> str:
    """The error condition that Spark names; of a failed task's error it is in the text."""
    assert isinstance(error, PySparkException)
    return f"{error.getCondition()} {error}"


@pytest.fixture
def counting(spark: SparkSession, tmp_path: Path) -> Counting:
    """A query that has run three batches and ended."""
    counting = Counting(tmp_path)
    for text in ("oak elm", "oak", "elm fir"):
        counting.add(text)
    assert counting.problems_after(new_session(spark)) == []
    return counting


@pytest.mark.parametrize(
    "options",
    [
        {"readChangeFeed": "true", "changeStartBatchId": "0"},
        {"snapshotStartBatchId": "0", "snapshotPartitionId": "0"},
    ],
)
def test_changes_and_replays_are_refused(
    spark: SparkSession, counting: Counting, options: dict[str, str]
) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("statestore").options(**options).load(counting.location).collect()
    said = condition_of(caught.value)
    assert "STATE_STORE_PROVIDER_DOES_NOT_SUPPORT_FINE_GRAINED_STATE_REPLAY" in said
    assert TAILRACE in said
    assert counting.state(spark) == counting.expected, "an ordinary read still works"


def test_the_real_time_trigger_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """With a sink that the trigger allows: it is the store that Spark does not take."""
    counts = new_session(spark).readStream.format("rate").load().groupBy("value").count()
    checkpoint = tmp_path / "checkpoint"
    writer = counts.writeStream.format("console").outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(realTime="5 seconds")
    with pytest.raises(PySparkException) as caught:
        writer.start().stop()
    said = condition_of(caught.value)
    assert "STREAMING_REAL_TIME_MODE.SQL_CONFIGURATION_NOT_SUPPORTED" in said
    assert "spark.sql.streaming.stateStore.providerClass must be" in said
    assert not checkpoint.exists(), "nothing was begun"


@pytest.mark.parametrize("version", ["3", "4"])
def test_new_joins_have_format_2(spark: SparkSession, tmp_path: Path, version: str) -> None:
    case = RANGE_CASES[0]
    session = new_query_session(spark, TAILRACE, {**case.conf, JOIN_FORMAT_CONF: version})
    write_steps(case, tmp_path, 0, 1)
    query = start_query(session, case, tmp_path, lambda batch, _: batch.collect() and None)
    await_end(query)
    assert recorded_conf(tmp_path / "checkpoint")[JOIN_FORMAT_CONF] == "2"
