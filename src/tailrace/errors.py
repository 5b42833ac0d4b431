"""Errors that the reader can act on.

Problem: a message like "invalid value" does not help its reader.
Answer: every error states the problem, its cause and the remedy, on three lines.
Invariant: callers tell errors apart by class, never by the words of a message.
"""

from __future__ import annotations


class TailraceError(Exception):
    """The base of all errors that tailrace raises on purpose."""

    def __init__(self, problem: str, cause: str, remedy: str) -> None:
        super().__init__(problem, cause, remedy)
        self.problem = problem
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  cause:  {_indent(self.cause)}\n  remedy: {_indent(self.remedy)}"


class OptionError(TailraceError, ValueError):
    """An option has an unknown name or a value that it does not allow."""


class EngineBuildError(TailraceError):
    """The engine could not be compiled, or no compiled engine is there."""


class SparkVersionError(TailraceError):
    """The PySpark that is installed is not the one this tailrace was written for."""


class SessionError(TailraceError):
    """A Spark session is in a state in which tailrace cannot be added to it or reached."""


class CommitError(TailraceError):
    """A batch whose state was applied could not be made durable or published."""


class SupervisionError(TailraceError):
    """A supervised query failed in a way that starting it again does not mend."""


class RollbackError(TailraceError):
    """A query cannot be set back to this batch, or not this way; nothing was changed."""


class EnrichmentError(TailraceError):
    """A remote table gave an answer that cannot be used, or refused the request."""


class SourceUnavailableError(TailraceError):
    """A remote table could not be reached, or did not answer in time."""


def _indent(text: str) -> str:
    return text.replace("\n", "\n          ")
