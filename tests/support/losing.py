"""The program of test_lost_executor.py: an executor dies with state that is not durable yet.

Two executors are processes of their own. Both are slow to upload their second pack; one of them is
killed meanwhile. With rule 7 the query fails and a new start takes it up again; without it the
loss is not noticed, and nothing is ever published again.

Argument: a folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pyspark
from pyspark import SparkContext

from support.counting import Counting, eventually, happens
from support.processes import JAVA_OPTIONS, say, session

SLOW_UPLOAD = "upload.before@2=delay:30000"
# Longer than the upload that was held up.
LONG_ENOUGH_SECONDS = 45


def executors() -> list[int]:
    """The processes that the driver's JVM has started."""
    gateway = SparkContext._gateway
    assert gateway is not None
    parent = str(gateway.proc.pid)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_text()
            except OSError:  # it has ended meanwhile
                continue
            if fields[1] == parent and "CoarseGrainedExecutorBackend" in command:
                found.append(int(entry.name))
    return sorted(found)


def main(folder: Path) -> None:
    spark = session(
        "local-cluster[2,1,1024]",
        {
            "spark.executor.memory": "1g",
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.executorEnv.TAILRACE_FAILPOINTS": SLOW_UPLOAD,
        },
    )
    workers = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    counting = Counting(folder, partitions=4)
    eventually(lambda: len(executors()) == 2, "two executors")
    query = counting.start(spark)
    counting.await_published(counting.run_batch(query, "oak elm fir ash yew"))
    packs = len(counting.packs(1))
    counting.run_batch(query, "oak elm fir pine box")
    before = list(counting.published)
    os.kill(executors()[0], signal.SIGKILL)
    counting.add("oak holly")
    failed = happens(lambda: not query.isActive, LONG_ENOUGH_SECONDS)
    say(
        "lost",
        failed=failed,
        error=str(query.exception()),
        before=before,
        published=counting.published,
        packs=packs,
    )
    if failed:
        query = counting.start(spark)
        counting.await_published(2)
        query.stop()
        say("restarted", totals=counting.totals, conflicts=counting.conflicts)
        assert counting.totals == counting.expected
    for executor in executors():
        os.kill(executor, signal.SIGKILL)
    shutil.rmtree(workers, ignore_errors=True)  # Spark has no setting for this folder
    say("over")
    os.kill(os.getpid(), signal.SIGKILL)  # the session is of no more use; `Program` tidies up


if __name__ == "__main__":
    main(Path(sys.argv[1]))
