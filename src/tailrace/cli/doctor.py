"""Check that tailrace can work on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tailrace import _build, _jvm
from tailrace._version import __version__
from tailrace.errors import SessionError, TailraceError
from tailrace.session import PROVIDER_CLASS, PROVIDER_CONF, jar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Runs the checks in order; those after a failed check are not tried."""
    del arguments
    print(f"tailrace {__version__}, Python {sys.version.split()[0]}")
    checks: list[tuple[str, Callable[[], str]]] = [
        ("Java", _check_java),
        ("PySpark", _check_spark),
        ("engine", _check_engine),
        ("state", _check_state),
    ]
    for name, check in checks:
        try:
            found = check()
        except TailraceError as error:
            _report("✗", name, str(error))
            return 1
        _report("✓", name, found)
    print("Everything works.")
    return 0


def _report(mark: str, name: str, text: str) -> None:
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        mark = {"✓": "ok", "✗": "PROBLEM"}[mark]
    first, *rest = text.splitlines()
    print(f"{mark} {name:<8} {first}", *("    " + line for line in rest), sep="\n", flush=True)


def _check_java() -> str:
    executable = _build.java()
    return f"{_build.java_version(executable)} ({executable})"


def _check_spark() -> str:
    return f"{_build.spark_version()} ({_build.spark_jars().parent})"


def _check_engine() -> str:
    path = jar()
    return f"{_build.read_properties(path)['fingerprint'][:12]} ({path})"


def _check_state() -> str:
    """Counts rows over three batches with a restart between: writes, reads and reloads state."""
    from tailrace.cli._local import local_session

    with local_session("tailrace doctor", memory="1g") as session:
        _jvm.engine(session.spark)
        provider = session.spark.conf.get(PROVIDER_CONF)
        if provider != PROVIDER_CLASS:
            raise SessionError(
                "The session does not use tailrace.",
                f"{PROVIDER_CONF} is {provider}.",
                "Look for this setting in spark-defaults.conf.",
            )
        counts = _count_rows(session.spark, session.directory)
    expected = {0: 30, 1: 30, 2: 30}
    if counts != expected:
        raise SessionError(
            "State came back wrong.",
            f"After three batches of 30 rows the counts are {counts}, not {expected}.",
            "This is a defect of tailrace: please report it with the output of this command.",
        )
    return "written, read, and read again after a restart of the query"


def _count_rows(spark: object, directory: Path) -> dict[int, int]:
    from pyspark.sql import DataFrame, SparkSession

    assert isinstance(spark, SparkSession)
    counts: dict[int, int] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        del batch_id
        counts.update({row["key"]: row["count"] for row in batch.collect()})

    for _ in range(3):  # rate-micro-batch gives an available-now run exactly one batch
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 30).load()
        query = (
            rows.groupBy((rows["value"] % 3).cast("int").alias("key"))
            .count()
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(keep)
            .start()
        )
        query.awaitTermination()
    return counts
