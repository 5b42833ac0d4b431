"""The program of test_spark_does_not_miss_a_snapshot: a query that Spark watches closely.

Problem: which stores lag is asked of Spark's coordinator, which has the settings of the first
session; and its own limits are 50 versions and 10 minutes.
Answer: a session with limits of 20 versions and half a second, and a query; after every batch the
coordinator is asked. Argument: a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.counting import Counting
from support.processes import say, session

BATCHES = 50
STATE_STORE = "spark.sql.streaming.stateStore."
WATCHFUL = {
    STATE_STORE + "minDeltasForSnapshot": "10",
    STATE_STORE + "multiplierForMinVersionDiffToLog": "2",
    STATE_STORE + "maintenanceInterval": "100ms",
    STATE_STORE + "multiplierForMinTimeDiffToLog": "5",
}


def main(folder: Path) -> None:
    spark = session(confs=WATCHFUL)
    coordinator = spark._jsparkSession.streams().stateStoreCoordinator()
    counting = Counting(folder)
    query = counting.start(spark)
    run = spark._jvm.java.util.UUID.fromString(query.runId)
    lagging = []
    for batch in range(BATCHES):
        counting.run_batch(query, "oak elm")
        if coordinator.getLaggingStoresForTesting(run, batch + 1, False).nonEmpty():
            lagging.append(batch + 1)
    query.stop()
    say("saw", lagging=lagging, right=counting.totals == counting.expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
