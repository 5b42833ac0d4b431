"""Errors as PySpark hands them on: their causes, and whether they would come back."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from tailrace import _build, _diagnosis, errors
from tailrace._diagnosis import Outlook, diagnose

CORRUPT = (
    "The state file file:/data/state/0/1/3.changes.tr is damaged.\n"
    "  Cause: It ends too early: it was cut short.\n"
    "  Remedy: Restore the file from a copy."
)


class JavaClass:
    def __init__(self, *names: str) -> None:
        self.names = names

    def getName(self) -> str:
        return self.names[0]

    def getSuperclass(self) -> JavaClass | None:
        return JavaClass(*self.names[1:]) if len(self.names) > 1 else None


class JavaError:
    """A Java exception as py4j shows it; one without a condition has no such method."""

    def __init__(
        self,
        *names: str,
        message: str | None = None,
        condition: str | None = None,
        cause: JavaError | None = None,
    ) -> None:
        self.names = names
        self.message = message
        self.condition = condition
        self.cause = cause

    def getClass(self) -> JavaClass:
        return JavaClass(*self.names, "java.lang.Exception", "java.lang.Object")

    def getMessage(self) -> str | None:
        return self.message

    def getCondition(self) -> str | None:
        if self.condition is None:
            raise Py4JError("Method getCondition([]) does not exist")
        return self.condition

    def getCause(self) -> JavaError | None:
        return self.cause


class CapturedError(Exception):
    """An exception of PySpark's, which keeps the one of the JVM."""

    def __init__(self, origin: Any, text: str = "the query failed") -> None:
        super().__init__(text)
        self._origin = origin


def query_error(cause: JavaError) -> CapturedError:
    return CapturedError(
        JavaError(
            "org.apache.spark.sql.streaming.StreamingQueryException",
            message="[STREAM_FAILED] Query [id = 1] terminated",
            condition="STREAM_FAILED",
            cause=cause,
        )
    )


def task_error(cause: JavaError) -> JavaError:
    return JavaError("org.apache.spark.SparkException", message="Job aborted", cause=cause)


def proxy_error(text: str) -> CapturedError:
    """An error of a Python function that the JVM called: all below it is printed."""
    return query_error(
        JavaError(
            "py4j.Py4JException",
            message="An exception was raised by the Python Proxy. Return Message: " + text,
        )
    )


PRINTED_BY_PY4J = f"""Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o310.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.0 in stage 7.0 \
(TID 9) (localhost executor driver): tailrace.errors.CorruptFile: {CORRUPT}
\tat tailrace.recovery.Loader.load(Loader.scala:10)
Caused by: java.io.EOFException
\t... 42 more

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2)
Caused by: tailrace.errors.CorruptFile: {CORRUPT}
\tat tailrace.recovery.Loader.load(Loader.scala:10)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readFully(DataInputStream.java:210)
\t... 42 more

"""

PRINTED_BY_PYTHON = """Traceback (most recent call last):
  File "captured.py", line 262, in deco
    raise converted from None
  File "job.py", line 49, in price
    raise ValueError("no price in row 17")
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 49, in price
    raise ValueError("no price in row 17")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no price in row 17
"""


@pytest.mark.parametrize(
    "error",
    [
        query_error(
            task_error(
                JavaError(
                    "tailrace.errors.CorruptFile",
                    "tailrace.errors.CheckpointError",
                    "java.io.IOException",
                    message=CORRUPT,
                    cause=JavaError("java.io.EOFException"),
                )
            )
        ),
        proxy_error(PRINTED_BY_PY4J),
    ],
    ids=["from the JVM", "printed"],
)
def test_an_error_of_the_engine_decides_wherever_it_is(error: Exception) -> None:
    diagnosis = diagnose(error)
    assert diagnosis.outlook is Outlook.WILL_REPEAT
    assert diagnosis.cause == f"tailrace.errors.CorruptFile: {CORRUPT}"
    assert diagnosis.remedy == "Restore the file from a copy."
    assert diagnosis.error == "the query failed"


def test_an_error_of_the_users_function_is_found_in_the_print() -> None:
    diagnosis = diagnose(proxy_error(PRINTED_BY_PYTHON))
    assert diagnosis.cause == "ValueError: no price in row 17"
    assert diagnosis.outlook is Outlook.UNKNOWN
    assert diagnosis.remedy is None
    again = diagnose(proxy_error(PRINTED_BY_PYTHON.replace("row 17", "row 18")))
    assert again.signature == diagnosis.signature
    other = diagnose(proxy_error(PRINTED_BY_PYTHON.replace("ValueError: no", "KeyError: no")))
    assert other.signature != diagnosis.signature


def test_a_worker_error_is_read_from_the_jvms_message() -> None:
    text = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    worker = JavaError(
        "org.apache.spark.api.python.PythonException",
        message=text + PRINTED_BY_PYTHON,
        condition="PYTHON_EXCEPTION",
    )
    assert diagnose(query_error(worker)).cause == "ValueError: no price in row 17"


def test_a_printed_condition_decides() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "job.py", line 3, in write\n'
        "pyspark.errors.exceptions.captured.UnsupportedOperationException: "
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match\nmore\n"
    )
    diagnosis = diagnose(proxy_error(text))
    assert diagnosis.outlook is Outlook.WILL_REPEAT
    assert "new checkpoint location" in str(diagnosis.remedy)


def test_printed_class_names_outside_of_a_stack_trace_decide_nothing() -> None:
    text = "Caused by: tailrace.errors.CorruptFile: says a line of a user's data"
    assert diagnose(RuntimeError(text)).outlook is Outlook.UNKNOWN
    nested = (
        "Traceback (most recent call last):\n  File\nValueError: tailrace.errors.CorruptFile: x"
    )
    assert diagnose(proxy_error(nested)).outlook is Outlook.UNKNOWN


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("CONCURRENT_STREAM_LOG_UPDATE", "checkpoint location of its own"),
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "new checkpoint location"),
        ("STATE_STORE_INVALID_PROVIDER", "Correct the query"),
    ],
)
def test_a_condition_of_sparks_decides(condition: str, said: str) -> None:
    refused = JavaError("org.apache.spark.SparkException", message="no", condition=condition)
    diagnosis = diagnose(query_error(refused))
    assert diagnosis.outlook is Outlook.WILL_REPEAT
    assert said in str(diagnosis.remedy)


@pytest.mark.parametrize(
    "error",
    [
        query_error(JavaError("a.OwnException", "org.apache.spark.sql.AnalysisException")),
        AnalysisException("no such column"),
        RuntimeError("from here"),
    ],
    ids=["below a class of the JVM's", "of PySpark's", "as a cause in Python"],
)
def test_a_query_that_spark_does_not_accept_will_repeat(error: Exception) -> None:
    if isinstance(error, RuntimeError):
        error.__cause__ = AnalysisException("no such column")
    assert diagnose(error).outlook is Outlook.WILL_REPEAT


def test_an_outage_below_an_analysis_error_may_pass() -> None:
    """Spark reports a catalog that does not answer as an AnalysisException."""
    outage = JavaError(
        "java.net.NoRouteToHostException", "java.net.SocketException", message="no route"
    )
    error = JavaError("org.apache.spark.sql.AnalysisException", message="catalog", cause=outage)
    diagnosis = diagnose(query_error(error))
    assert diagnosis.outlook is Outlook.MAY_PASS
    assert diagnosis.cause == "java.net.NoRouteToHostException: no route"


def test_an_outage_below_a_damaged_file_does_not_save_it() -> None:
    outage = JavaError("java.net.ConnectException")
    error = JavaError("tailrace.errors.CorruptFile", message=CORRUPT, cause=outage)
    assert diagnose(query_error(error)).outlook is Outlook.WILL_REPEAT


def test_a_write_that_failed_may_pass_and_keeps_its_remedy() -> None:
    message = "It could not be written.\n  Cause: full\n  Remedy: Check free space."
    diagnosis = diagnose(query_error(JavaError("tailrace.errors.WriteFailed", message=message)))
    assert diagnosis.outlook is Outlook.MAY_PASS
    assert diagnosis.remedy == "Check free space."


def test_an_error_of_the_package_keeps_its_remedy() -> None:
    diagnosis = diagnose(errors.CommitError("Not published.", "full", "Check\nfree space."))
    assert diagnosis.outlook is Outlook.MAY_PASS
    assert diagnosis.remedy == "Check free space."
    assert diagnose(errors.OptionError("No.", "c", "Fix it.")).outlook is Outlook.WILL_REPEAT


def test_causes_that_go_round_in_a_circle_come_to_an_end() -> None:
    first, second = JavaError("a.B"), JavaError("c.D")
    first.cause, second.cause = second, first
    assert diagnose(query_error(first)).outlook is Outlook.UNKNOWN
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert diagnose(one).outlook is Outlook.UNKNOWN


def test_a_cause_that_was_hidden_on_purpose_stays_hidden() -> None:
    error = RuntimeError("told otherwise")
    error.__context__ = ConnectionError("no answer")
    assert diagnose(error).outlook is Outlook.MAY_PASS
    error.__cause__ = None  # as "from None" does
    assert diagnose(error).outlook is Outlook.UNKNOWN


def test_a_jvm_that_is_gone_leaves_what_python_knows() -> None:
    class Gone:
        def getClass(self) -> None:
            raise ConnectionRefusedError

    diagnosis = diagnose(CapturedError(Gone(), "answer from Java side is empty"))
    assert diagnosis.cause.endswith("CapturedError: answer from Java side is empty")


def test_every_error_of_the_engine_is_in_one_table() -> None:
    """A new error has to be classified here, too: does a restart mend it?"""
    declaration = re.compile(
        r"^final class (\w+)(?:\([^{}]*?\))?\s+"
        r"extends (?:CheckpointError|EngineError|IOException\(StoreError)",
        re.MULTILINE,
    )
    declared = [
        f"tailrace.{source.parent.name}.{name}"
        for source in (Path(__file__).parents[2] / "engine/src/tailrace").rglob("*.scala")
        for name in declaration.findall(source.read_text())
    ]
    assert len(declared) >= 13
    tables = [
        _diagnosis.ENGINE_WILL_REPEAT,
        _diagnosis.ENGINE_MAY_PASS,
        _diagnosis.ENGINE_UNKNOWN,
    ]
    assert sorted(name for table in tables for name in table) == sorted(declared)


def test_every_name_in_a_table_exists() -> None:
    for name in _diagnosis.PACKAGE_WILL_REPEAT | _diagnosis.PACKAGE_MAY_PASS:
        assert issubclass(getattr(errors, name.rpartition(".")[2]), errors.TailraceError)
    (jar,) = _build.spark_jars().glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        known = json.loads(archive.read("error/error-conditions.json"))
    assert _diagnosis.CONDITIONS.keys() <= known.keys()
