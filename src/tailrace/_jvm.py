"""The only door from Python to the engine.

Problem: py4j reaches any class of the JVM by name, so calls into the engine would spread, and a
package talking to a jar of another version would fail in strange ways.
Answer: everything goes through this module; `engine(spark)` compares versions first.
Invariant: an `Engine` talks to a jar of the same version as this package.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace import _build
from tailrace._version import __version__
from tailrace.errors import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Engine:
    """The engine inside the JVM of one Spark session."""

    def __init__(self, jvm: Any, properties: dict[str, str]) -> None:
        self._jvm = jvm
        self.version = properties["version"]
        self.spark_version = properties["spark.version"]
        self.fingerprint = properties["fingerprint"]

    @property
    def classes(self) -> Any:
        """The Scala package `tailrace`, as py4j shows it."""
        return self._jvm.tailrace

    @property
    def _services(self) -> Any:
        """The services of the process's commits: the ledger and the pipeline."""
        return self.classes.spark.EngineRuntime.current().services()

    def drain(self, timeout: float) -> list[str]:
        """Waits until nothing is pending; problem, cause and remedy of each failure."""
        return list(self._services.drain(int(timeout * 1000)))

    def drain_query(self, query: StreamingQuery, timeout: float) -> list[str]:
        """The same for one query's checkpoint: failures of others do not count."""
        execution = query._jsq.streamingQuery()
        conf = execution.sparkSession().sessionState().newHadoopConf()
        root = execution.resolvedCheckpointRoot()
        return list(self._services.drain(root, conf, int(timeout * 1000)))

    def explain_query(self, query: StreamingQuery) -> list[list[str]]:
        """The classifier's rows for the last batch of a query."""
        plan = self._plans.ofQuery(query._jsq)
        return [] if plan.isEmpty() else self._explained(plan.get())

    def explain_frame(self, frame: DataFrame, output_mode: str) -> list[list[str]]:
        """The classifier's rows for a streaming DataFrame that was not started."""
        return self._explained(self._plans.ofFrame(frame._jdf, output_mode))

    @property
    def _plans(self) -> Any:
        return self._jvm.org.apache.spark.sql.tailrace.StreamingPlan

    def _explained(self, plan: Any) -> list[list[str]]:
        return [list(row) for row in self.classes.plan.Explanation.of(plan)]


def engine(spark: SparkSession) -> Engine:
    """The engine of a session; an error if there is none or it is of another version."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise SessionError(
            "The engine cannot be reached from this session.",
            "It is a Spark Connect session, which has no JVM of its own.",
            "Run this in a classic session on the driver.",
        )
    properties = build_properties(jvm)
    if not properties:
        raise SessionError(
            "This Spark session runs without tailrace.",
            "The engine's jar is not on the class path of its JVM.",
            "Create the session with tailrace.configure(SparkSession.builder).getOrCreate().",
        )
    if properties.get("version") != __version__:
        raise SessionError(
            "The Python package and the engine are of different versions.",
            f"The package is tailrace {__version__}, the jar in the session is tailrace "
            f"{properties.get('version')}.",
            "Use the jar that tailrace.jar() names, and no other.",
        )
    return Engine(jvm, properties)


def running_gateway() -> Any | None:
    """The connection to this process's driver JVM, if there is such a JVM already."""
    from pyspark import SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # spark-submit started the JVM: connect to it
    return SparkContext._gateway


def has_active_context() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def build_properties(jvm: Any) -> dict[str, str]:
    """The build properties of the engine in the JVM; empty if there is no engine."""
    url = _class_loader(jvm).getResource(_build.PROPERTIES)
    if url is None:
        return {}
    stream = url.openStream()
    try:
        return _build.parse_properties(bytes(stream.readAllBytes()).decode("utf-8"))
    finally:
        stream.close()


def add_to_class_path(jvm: Any, path: Path) -> None:
    """Lets the driver's class loader find the classes of a jar."""
    loader = _class_loader(jvm)
    try:
        loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
    except Exception as error:  # py4j's classes are not public interface
        raise SessionError(
            "The engine's jar cannot be added to the running JVM.",
            f"Its class loader, {loader.getClass().getName()}, does not take jars: {error}",
            "Start the program with: spark-submit --jars $(python -c "
            "'import tailrace; print(tailrace.jar())')",
        ) from error


def _class_loader(jvm: Any) -> Any:
    """The loader that Spark resolves class names with: the context loader of the thread."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
