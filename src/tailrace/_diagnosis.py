"""Why a query failed, and whether it would fail again.

Problem: PySpark's errors wrap the cause several times, and where a Python function ran in
between (foreachBatch, a UDF) the wrapping has turned everything below it into printed text.
Answer: `diagnose` follows the causes, in the JVM, in Python and through printed stack traces, to a
list of links from the outside in. Class names and Spark's error conditions decide the outlook.
Invariant: no message decides. An error that is in no table here has the outlook UNKNOWN.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator
from typing import Any


class Outlook(enum.Enum):
    """Whether the error can be expected to pass with a restart."""

    WILL_REPEAT = "will repeat"
    MAY_PASS = "may pass"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Link:
    """One error of a chain: its class with all that it extends, Spark's condition, its message."""

    kinds: tuple[str, ...]
    condition: str | None
    message: str

    @property
    def headline(self) -> str:
        """Class and message without the stack traces that some messages carry."""
        told = _TRACE.split(self.message, maxsplit=1)[0].strip()
        name = self.kinds[0].removeprefix("builtins.")
        return f"{name}: {told}" if told else name


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """An error's full text, the cause in short, the outlook and, where one is known, the remedy."""

    error: str
    cause: str
    outlook: Outlook
    remedy: str | None
    signature: tuple[str, ...]
    """Equal for two failures of one kind: numbers and names with numbers in them do not count."""


_NEW_CHECKPOINT = (
    "Restore the query to what it was when the checkpoint was written, or use a new checkpoint "
    "location."
)
_ONE_OWNER = (
    "Another query runs on this checkpoint: stop one of the two. Each query needs a checkpoint "
    "location of its own."
)
_CORRECT = "Correct the query or the settings that the cause names, then start it again."

# Our own errors carry their remedies (engine/src/tailrace/errors/StoreErrors.scala, errors.py).
ENGINE_WILL_REPEAT = frozenset(
    "tailrace.errors." + name
    for name in (
        "CorruptFile",
        "MissingFile",
        "MissingNote",
        "LogEntriesMissing",
        "FolderInTheWay",
        "UnusableLocalFolder",
        "DirectIoUnsupported",
        "ForeignFile",
        "NewerFormat",
        "BrokenLineage",
        "SchemaMismatch",
        "WrongSpark",
        "WrongByteOrder",
        "InvalidOption",
        "ContradictingOptions",
        "UnknownOption",
        "InvalidHint",
        "CheckpointTaken",
    )
)
ENGINE_MAY_PASS = frozenset(
    {
        "tailrace.errors.WriteFailed",
        "tailrace.errors.UnreadableFile",
        "tailrace.errors.ColdFileDamaged",
        "tailrace.errors.ColdFileUnreadable",
        "tailrace.errors.ColdLogUsedUp",
        "tailrace.errors.SpillFailed",
        "tailrace.errors.UnusableColdDir",
        "tailrace.errors.StoreBusy",
        "tailrace.ledger.CommitFailed",
    }
)
# Whether the state still does not fit next time depends on the other queries of the process.
ENGINE_UNKNOWN = frozenset({"tailrace.errors.MemoryExhausted"})

PACKAGE_WILL_REPEAT = frozenset(
    "tailrace.errors." + name
    for name in ("OptionError", "EngineBuildError", "SparkVersionError", "SessionError")
)
PACKAGE_MAY_PASS = frozenset(
    {"tailrace.errors.CommitError", "tailrace.errors.SourceUnavailableError"}
)

_OWN = {
    Outlook.WILL_REPEAT: ENGINE_WILL_REPEAT | PACKAGE_WILL_REPEAT,
    Outlook.MAY_PASS: ENGINE_MAY_PASS | PACKAGE_MAY_PASS,
    Outlook.UNKNOWN: ENGINE_UNKNOWN,
}

# A printed stack trace names a class without its superclasses: the usual subclasses are here too.
OUTAGES = frozenset(
    {
        "java.net.SocketException",
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
        "java.nio.channels.UnresolvedAddressException",
        "org.apache.hadoop.ipc.RetriableException",
        "org.apache.hadoop.ipc.StandbyException",
        "org.apache.hadoop.net.ConnectTimeoutException",
        "org.apache.kafka.common.errors.RetriableException",
        "org.apache.kafka.common.errors.TimeoutException",
        "builtins.ConnectionError",
        "builtins.ConnectionAbortedError",
        "builtins.ConnectionRefusedError",
        "builtins.ConnectionResetError",
        "builtins.TimeoutError",
    }
)

ANALYSIS = frozenset(
    {
        "org.apache.spark.sql.AnalysisException",
        "org.apache.spark.sql.catalyst.ExtendedAnalysisException",
        "org.apache.spark.sql.catalyst.parser.ParseException",
        "pyspark.errors.exceptions.base.AnalysisException",
        "pyspark.errors.exceptions.captured.AnalysisException",
        "pyspark.errors.exceptions.captured.ParseException",
        "pyspark.errors.exceptions.connect.AnalysisException",
        "pyspark.errors.exceptions.connect.ParseException",
    }
)

CONDITIONS = {
    **dict.fromkeys(("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY"), _ONE_OWNER),
    **dict.fromkeys(
        (
            "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ),
        _NEW_CHECKPOINT,
    ),
    **dict.fromkeys(
        (
            "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            "STATE_STORE_INVALID_PROVIDER",
            "STATE_STORE_UNSUPPORTED_OPERATION",
            "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY",
        ),
        _CORRECT,
    ),
}

# Causes that cause each other would be followed forever.
_MOST_LINKS = 50


def diagnose(error: BaseException) -> Diagnosis:
    """Cause, outlook and remedy of an error that ended a query, or kept it from starting."""
    links = list(_links(error))
    outlook, remedy, decisive = _judge(links)
    root = links[-1]
    return Diagnosis(
        error=str(error) or type(error).__name__,
        cause=(decisive or root).headline,
        outlook=outlook,
        remedy=remedy,
        signature=(*(link.kinds[0] for link in links), re.sub(r"\w*\d[\w-]*", "#", root.headline)),
    )


def _judge(links: list[Link]) -> tuple[Outlook, str | None, Link | None]:
    """The outlook, the remedy and the link that decided.

    1. An error of tailrace's own comes first: tailrace knows its files best.
    2. An outage comes before Spark's word: a catalog that is not reached is an AnalysisException.
    3. Then Spark's condition, which is more exact than its class.
    """
    for link in links:
        for outlook, names in _OWN.items():
            if not names.isdisjoint(link.kinds):
                return outlook, _own_remedy(link), link
    for link in links:
        if not OUTAGES.isdisjoint(link.kinds):
            return Outlook.MAY_PASS, None, link
    for link in links:
        condition = (link.condition or "").partition(".")[0]
        if condition in CONDITIONS:
            return Outlook.WILL_REPEAT, CONDITIONS[condition], link
    for link in links:
        if not ANALYSIS.isdisjoint(link.kinds):
            return Outlook.WILL_REPEAT, _CORRECT, link
    return Outlook.UNKNOWN, None, None


def _own_remedy(link: Link) -> str:
    """The last of the three parts of our messages, the engine's and the package's."""
    parts = re.split(r"\n  [Rr]emedy: ", link.message, maxsplit=1)
    return re.sub(r"\s+", " ", parts[1]).strip() if len(parts) > 1 else _CORRECT


def _links(error: BaseException) -> Iterator[Link]:
    """The chain of an error from the outside in, with errors printed in the innermost message."""
    last = None
    for last in _causes(error):
        yield last
    if last is not None:
        yield from _printed(last.message)


def _causes(error: BaseException) -> Iterator[Link]:
    following: BaseException | None = error
    for _ in range(_MOST_LINKS):
        if following is None:
            return
        thrown = getattr(following, "_origin", None) or getattr(following, "java_exception", None)
        if thrown is not None:
            yield from _reachable(thrown) or [_raised(following)]
            return
        yield _raised(following)
        hidden = following.__suppress_context__
        following = following.__cause__ or (None if hidden else following.__context__)


def _raised(error: BaseException) -> Link:
    condition = getattr(error, "getCondition", None)
    return Link(
        kinds=tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__),
        condition=condition() if callable(condition) else None,
        message=str(error),
    )


def _reachable(throwable: Any) -> list[Link]:
    try:
        return list(_thrown(throwable))
    except Exception:  # the JVM, in which the exception is, may itself have failed
        return []


def _thrown(throwable: Any) -> Iterator[Link]:
    """A chain of Java exceptions, reached by py4j."""
    for _ in range(_MOST_LINKS):
        if throwable is None:
            return
        kinds = []
        kind = throwable.getClass()
        while kind is not None:
            kinds.append(str(kind.getName()))
            kind = kind.getSuperclass()
        try:
            condition = throwable.getCondition()
        except Exception:  # not one of Spark's own exceptions: it has no such method
            condition = None
        yield Link(tuple(kinds), condition, str(throwable.getMessage() or ""))
        throwable = throwable.getCause()


_TRACEBACK = "Traceback (most recent call last):"
# The text after the message of an error: Java's frames, or a whole traceback of Python's.
_TRACE = re.compile(rf"\n\tat |\n\t\.\.\. |\nCaused by: |{re.escape(_TRACEBACK)}")
# "Caused by: a.b.C: message", and py4j's ": a.b.C: message" under the line that names the call.
_JAVA_ERROR = re.compile(
    r"^(?:Caused by: |: )((?:[A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*)(?:: (.*?))?"
    r"(?=\n\tat |\n\t\.\.\. |\nCaused by: |\Z)",
    re.MULTILINE | re.DOTALL,
)
# The first line of a traceback that is not indented: "module.Class: message".
_PYTHON_ERROR = re.compile(
    re.escape(_TRACEBACK) + r"\n(?:[ \t].*\n)*([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\] ")


def _printed(text: str) -> Iterable[Link]:
    """The errors whose stack traces a text contains, in the order of their printing."""
    if _TRACEBACK not in text:
        return []
    found = [(match.start(1), match) for match in _PYTHON_ERROR.finditer(text)]
    found += [(match.start(1), match) for match in _JAVA_ERROR.finditer(text)]
    return [_read(match) for _, match in sorted(found, key=lambda entry: entry[0])]


def _read(match: re.Match[str]) -> Link:
    name, message = match[1], match[2] or ""
    condition = _CONDITION.match(message)
    return Link(
        kinds=(name if "." in name else f"builtins.{name}",),
        condition=condition[1] if condition else None,
        message=message,
    )
