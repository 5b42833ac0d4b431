"""The program of test_hints_between_executors.py: hints that cross, and an executor that dies.

Two executors are processes of their own, each with some of the partitions. The map side of a batch
is one task, on one of them, so that the keys of the other one's partitions have to cross. Then one
is killed, after the batch was published: Spark starts another in its place.

Arguments: a folder, and the option hints.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql.streaming import StreamingQuery

from support.counting import Counting, eventually
from support.losing import executors
from support.processes import JAVA_OPTIONS, say, session

WORDS = [f"word-{number}" for number in range(400)]
METRICS = ("tailraceHintsReceived", "tailraceHintsInTime", "tailracePrefetchHits")


def main(folder: Path, hints: str) -> None:
    spark = session(
        "local-cluster[2,1,1024]",
        {"spark.executor.memory": "1g", "spark.executor.extraJavaOptions": JAVA_OPTIONS},
        spill="always",
        prefetch="on",
        hints=hints,
    )
    workers = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    counting = Counting(folder, partitions=4)
    eventually(lambda: len(executors()) == 2, "two executors")
    query = counting.start(spark)

    def counts(number: int) -> dict[str, int]:
        """What the stores said at the end of a batch: since each was opened."""
        (report,) = (each for each in query.recentProgress if each["batchId"] == number)
        metrics = report["stateOperators"][0]["customMetrics"]
        return {name: metrics[name] for name in METRICS}

    def batch() -> dict[str, int]:
        return counts(counting.run_batch(query, " ".join(WORDS)))

    def batches(most: int, until: Callable[[dict[str, int]], bool]) -> list[dict[str, int]]:
        """So many, or fewer if the difference of the last two is enough."""
        found = [batch()]
        while len(found) < most:
            found.append(batch())
            gained = {name: found[-1][name] - found[-2][name] for name in METRICS}
            if until(gained):
                break
        return found

    def all_hinted(gained: dict[str, int]) -> bool:
        return gained["tailraceHintsInTime"] >= len(WORDS)

    before = batches(8, all_hinted)
    say("before", counts=before, right=is_right(counting, query))
    counting.await_published(counting.files - 1)
    lost, *_ = executors()
    os.kill(lost, signal.SIGKILL)
    eventually(lambda: len(executors()) == 2 and lost not in executors(), "another executor")
    after = batches(12, all_hinted)
    say("after", counts=after, right=is_right(counting, query))
    query.stop()
    for executor in executors():
        os.kill(executor, signal.SIGKILL)
    shutil.rmtree(workers, ignore_errors=True)  # Spark has no setting for this folder
    say("over")
    os.kill(os.getpid(), signal.SIGKILL)  # the session is of no more use; `Program` tidies up


def is_right(counting: Counting, query: StreamingQuery) -> bool:
    assert query.isActive
    counting.assert_right()
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
