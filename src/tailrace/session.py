"""Puts tailrace into a Spark session.

Problem: a state store needs a conf, a jar on the class path of driver and executors, and a
matching Spark; each can be got wrong in a way that shows only when the first query fails.
Answer: `configure` does all of it on a `SparkSession.builder`, and refuses early and clearly
where it cannot be done.
Invariant: settings of the user on the builder stay set. Jars, plugins and extensions are added
to, never replaced; an option goes before a conf, a conf before a default.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace import _build, _jvm
from tailrace._version import SPARK_SERIES, __version__
from tailrace.errors import CommitError, SessionError, SparkVersionError
from tailrace.options import Options, describe, refuse_unknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PROVIDER_CONF = "spark.sql.streaming.stateStore.providerClass"
PROVIDER_CLASS = "tailrace.spark.TailraceStateStoreProvider"
# Every file of a checkpoint goes through it; a manager that the user chose stays in place.
FILE_MANAGER_CONF = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGER_CLASS = "tailrace.spark.TailraceFileManager"
# Starts the ledger of asynchronous commits on the driver, and ends it in good order.
PLUGINS_CONF = "spark.plugins"
PLUGIN_CLASS = "tailrace.spark.TailracePlugin"
# Reads every batch's plan, so that the stores know when their rows expire.
EXTENSIONS_CONF = "spark.sql.extensions"
EXTENSION_CLASS = "tailrace.plan.TailraceExtensions"
JARS_CONF = "spark.jars"


def configure(builder: SparkSession.Builder, **options: Any) -> SparkSession.Builder:
    """Sets everything that lets the stateful queries of a session run on tailrace.

    Call it before the session is created::

        spark = tailrace.configure(SparkSession.builder, compression="zstd").getOrCreate()
    """
    present: dict[str, Any] = dict(builder._options)
    refuse_remote(present)
    refuse_unknown(present)
    settings = confs(**options)
    own_jar = settings.pop(JARS_CONF)
    _add_to_running_jvm(Path(own_jar))

    named = {option.conf for option in describe() if option.name in options}
    for key, value in settings.items():
        if key == PROVIDER_CONF or key in named or key not in present:
            builder.config(key, value)
    added = {
        JARS_CONF: own_jar,
        PLUGINS_CONF: PLUGIN_CLASS,
        EXTENSIONS_CONF: EXTENSION_CLASS,
    }
    for key, own in added.items():
        builder.config(key, _append(str(present.get(key) or ""), own))

    # Without this the workers are the first "python3" on the path. PySpark reads it from the
    # environment only: the conf spark.pyspark.python has no effect in a plain script.
    if (
        "PYSPARK_PYTHON" not in os.environ
        and "spark.pyspark.python" not in present
        and _is_local(present)
    ):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return builder


def confs(**options: Any) -> dict[str, str]:
    """The settings of `configure` as a dict, for spark-submit, notebooks and clusters."""
    chosen = Options.of(**options)
    return {
        PROVIDER_CONF: PROVIDER_CLASS,
        FILE_MANAGER_CONF: FILE_MANAGER_CLASS,
        PLUGINS_CONF: PLUGIN_CLASS,
        EXTENSIONS_CONF: EXTENSION_CLASS,
        **chosen.confs(),
        JARS_CONF: str(jar()),
    }


def jar() -> Path:
    """The engine's jar; in a checkout it is compiled first if a source changed."""
    _check_spark_version()
    return _build.jar()


def drain(spark: SparkSession, timeout: float = 60.0, query: StreamingQuery | None = None) -> None:
    """Waits until every batch of the session's queries, or of one, is published on its checkpoint.

    With commit="async" the state of the last batch may still be on its way when a query ends.
    Nothing has to be called for it: `spark.stop()`, the end of the program, and readers of
    the checkpoint in this session wait by themselves. Call this to wait earlier, or to know
    when a batch could not be written: it then raises `CommitError`.
    """
    engine = _jvm.engine(spark)
    failures = engine.drain(timeout) if query is None else engine.drain_query(query, timeout)
    if failures:
        raise CommitError(*failures[:3])


def _check_spark_version() -> None:
    installed = _build.spark_version()
    import pyspark

    for version, what in ((pyspark.__version__, "PySpark"), (installed, "Spark")):
        if not version.startswith(SPARK_SERIES + "."):
            raise SparkVersionError(
                f"tailrace {__version__} does not run on {what} {version}.",
                f"Spark's state store interface differs between versions; this is for "
                f"{SPARK_SERIES}. Its jars are in {_build.spark_jars()}.",
                f'Install the right one: pip install "pyspark>={SPARK_SERIES}.0,<4.4"'
                + ("; or unset SPARK_HOME." if "SPARK_HOME" in os.environ else "."),
            )


def refuse_remote(present: dict[str, Any]) -> None:
    if "spark.remote" in present or "SPARK_REMOTE" in os.environ:
        raise SessionError(
            "tailrace cannot be added to a Spark Connect session from its client.",
            "The builder or SPARK_REMOTE names a remote server, whose class path is its own.",
            "Start the server with the settings of tailrace.confs(); clients then need nothing.",
        )


def _add_to_running_jvm(path: Path) -> None:
    """Brings the jar to a driver JVM that already runs; does nothing if there is none.

    PySpark hands spark.jars to the JVM when it launches it. A JVM started by spark-submit, or
    left over from a session that was stopped, gets the jar through its class loader instead;
    executors get it from spark.jars in either case. A session that is active could be given
    the classes too, but not the static settings, so it is refused rather than half configured.
    """
    gateway = _jvm.running_gateway()
    if gateway is None:
        return
    loaded = _jvm.build_properties(gateway.jvm)
    wanted = _build.read_properties(path)
    if loaded and loaded.get("fingerprint") != wanted.get("fingerprint"):
        raise SessionError(
            "This process has already loaded another build of tailrace's engine.",
            f"The JVM runs {_describe(loaded)}, the package would load {_describe(wanted)}.",
            "Restart Python (or the notebook's kernel).",
        )
    if loaded:
        return
    if _jvm.has_active_context():
        raise SessionError(
            "A Spark session without tailrace is already running in this process.",
            "The engine has to be on the class path when a session starts.",
            "Call tailrace.configure before the first getOrCreate(), or stop the running session "
            "first: spark.stop(). In a notebook or shell that starts the session for you, give "
            "it the settings of tailrace.confs().",
        )
    _jvm.add_to_class_path(gateway.jvm, path)


def _describe(properties: dict[str, str]) -> str:
    return f"{properties.get('version')} ({properties.get('fingerprint', '')[:12]})"


def _append(present: str, own: str) -> str:
    entries = [entry.strip() for entry in present.split(",") if entry.strip()]
    return ",".join(entries if own in entries else [*entries, own])


def _is_local(present: dict[str, Any]) -> bool:
    """Whether driver and executors will share this machine, as far as can be known now."""
    master = present.get("spark.master") or os.environ.get("MASTER")
    if master:
        return str(master).startswith("local")
    # A plain script without a master runs locally, unless a conf file or spark-submit says more.
    launched_by_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    return not (
        launched_by_submit
        or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
        or _names_master(_conf_directory() / "spark-defaults.conf")
    )


def _conf_directory() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or _build.spark_jars().parent / "conf")


def _names_master(defaults: Path) -> bool:
    try:
        lines = defaults.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.strip().startswith("spark.master") for line in lines)
