"""Keeps a streaming query running.

Problem: a query ends with the first error that a task's retries do not mend, such as a lost
executor or a file system out of reach. Starting it again helps, unless the error comes back
every time: then a loop of restarts hides it.
Answer: `supervise` starts the query, waits for its end, and starts it again after a growing wait;
Spark then goes on after the last published batch. It gives up, with one error that says why, when
a restart cannot help.
Invariant: when `supervise` returns or raises, the query that it started last has ended or was asked
to stop. It returns only if that query ended without an error and every batch that it had applied is
published, or if `stop` was set.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import math
import random as randomness
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace import _jvm
from tailrace._diagnosis import Diagnosis, Outlook, diagnose
from tailrace.errors import OptionError, SupervisionError
from tailrace.options import Rule, integer_from, number_above
from tailrace.session import drain

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

# How often a running query is asked for its progress.
PROGRESS_SECONDS = 1
# How soon a set `stop` event is seen.
STOP_SECONDS = 0.2
# How many failures an outcome keeps; a query may run for years.
KEPT_FAILURES = 20


class Verdict(enum.Enum):
    """The decision after a failure."""

    RESTART = "the query is started again"
    WILL_REPEAT = "the error is known to come back"
    SAME_ERROR = "the same error came back too often"
    NO_RESTART_LEFT = "no restart is left"
    STOPPED = "the query was to be stopped"


@dataclasses.dataclass(frozen=True)
class Failure:
    """One failure of a supervised query, the argument of `on_failure`."""

    attempt: int
    """Which start of the query failed, counted from 1."""
    error: str
    """All that Spark says."""
    cause: str
    """The cause in short: its class and message."""
    last_batch: int | None
    """The last batch that is known to be applied; None if there is none."""
    verdict: Verdict
    wait_seconds: float
    """How long the wait before the restart is; 0 if there is none."""

    @property
    def will_restart(self) -> bool:
        return self.verdict is Verdict.RESTART


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a supervised query came to its end."""

    restarts: int
    failures: tuple[Failure, ...]
    """The last failures, at most 20."""
    last_batch: int | None


@dataclasses.dataclass(frozen=True)
class Backoff:
    """How long to wait before a restart: growing from `first` by `factor` up to `cap` seconds.

    With a `random`, up to the share `jitter` of each wait is taken off by chance, so that queries
    that failed together do not all come back in the same moment. Without one, the waits are fixed.
    """

    first: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.5
    random: randomness.Random | None = None

    def __post_init__(self) -> None:
        _check("first", self.first, number_above(0))
        _check("factor", self.factor, _number("a number from 1", 1.0))
        _check("cap", self.cap, _number("a number not less than first", self.first))
        _check("jitter", self.jitter, _number("a number from 0 to 1", 0.0, 1.0))

    def seconds(self, failures: int) -> float:
        """The wait after so many failures in a row."""
        growth = failures - 1
        # Compared as logarithms, because a power of many failures is more than a float holds.
        if growth * math.log(self.factor) >= math.log(self.cap / self.first):
            wait = self.cap
        else:
            wait = self.first * self.factor**growth
        if self.random is None:
            return wait
        return wait * (1 - self.jitter * self.random.random())


def _drain(query: StreamingQuery) -> None:
    """Waits until every applied batch is published; raises the error if one cannot be."""
    if not _jvm.has_active_context():
        return
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    if _jvm.build_properties(spark._jvm):  # any other store publishes within the batch
        drain(spark, query=query)


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Functions that tests replace: time, and the wait until all batches are published."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    """None: waits with the `stop` event, so that setting it ends the wait."""
    drain: Callable[[StreamingQuery], None] = _drain


def supervise(
    start_query: Callable[[], StreamingQuery],
    *,
    max_restarts: int = 10,
    backoff: Backoff | None = None,
    same_error_limit: int = 3,
    healthy_after: float = 600.0,
    on_failure: Callable[[Failure], None] | None = None,
    stop: threading.Event | None = None,
    surroundings: Surroundings | None = None,
) -> Outcome:
    """Runs a query until it ends without an error, starting it again when it fails.

    `start_query` starts the query, each time with the same checkpoint location, and returns it::

        tailrace.supervise(lambda: totals.writeStream.option(...).start())

    The steps, until the query ends without an error:

    1. Start the query and wait for its end. After an end without an error, wait until its last
       batch is published; if that fails, the query failed.
    2. Diagnose the failure. Progress sets all counts back: a further batch was applied, or a
       trigger, idle or not, was finished `healthy_after` seconds or more after the start.
    3. Decide. There is no restart for an error that is known to come back, for the same error
       `same_error_limit` times without progress (errors known to be outages are exempt), and after
       `max_restarts` restarts without progress.
    4. Report: a log line, and `on_failure` with the `Failure`.
    5. Wait as `backoff` says, or give up with a `SupervisionError`.

    Setting `stop` ends the query and the supervision, also during a wait; a failure on the way is
    then reported but not raised. KeyboardInterrupt, like everything that is not an `Exception`,
    stops the query and goes on to the caller.
    """
    _check("max_restarts", max_restarts, integer_from(0))
    _check("same_error_limit", same_error_limit, integer_from(1))
    _check("healthy_after", healthy_after, number_above(0))
    return _Supervision(
        start_query,
        max_restarts,
        backoff or Backoff(),
        same_error_limit,
        healthy_after,
        on_failure,
        stop or threading.Event(),
        surroundings or Surroundings(),
    ).run()


class _Supervision:
    """The counts of one call of `supervise`, and its steps."""

    def __init__(
        self,
        start_query: Callable[[], StreamingQuery],
        max_restarts: int,
        backoff: Backoff,
        same_error_limit: int,
        healthy_after: float,
        on_failure: Callable[[Failure], None] | None,
        stop: threading.Event,
        surroundings: Surroundings,
    ) -> None:
        self.start_query = start_query
        self.max_restarts = max_restarts
        self.backoff = backoff
        self.same_error_limit = same_error_limit
        self.healthy_after = healthy_after
        self.on_failure = on_failure
        self.stop = stop
        self.surroundings = surroundings
        self.attempt = 0
        self.last_batch: int | None = None
        self.failures: deque[Failure] = deque(maxlen=KEPT_FAILURES)
        # Both count since the last progress.
        self.failures_in_a_row = 0
        self.same_errors: Counter[tuple[str, ...]] = Counter()

    def run(self) -> Outcome:
        while not self.stop.is_set():
            error = self._run_once()  # 1
            if error is None:
                break
            diagnosis = diagnose(error)  # 2
            self.failures_in_a_row += 1
            self.same_errors[diagnosis.signature] += 1
            verdict = self._decide(diagnosis)  # 3
            failure = self._report(error, diagnosis, verdict)  # 4
            if verdict is Verdict.STOPPED:
                break
            if verdict is not Verdict.RESTART:
                raise self._gives_up(diagnosis, verdict) from error
            (self.surroundings.sleep or self.stop.wait)(failure.wait_seconds)  # 5
        return Outcome(max(0, self.attempt - 1), tuple(self.failures), self.last_batch)

    def _run_once(self) -> Exception | None:
        """Starts the query and waits for its end; returns the error that it ended with."""
        self.attempt += 1
        try:
            query = self.start_query()
        except Exception as error:
            return error
        if not hasattr(query, "awaitTermination"):
            raise OptionError(
                "start_query did not return a streaming query.",
                f"It returned {query!r}.",
                "Return what start() of the query's writeStream returns.",
            )
        watch = _Watch(query, self.surroundings)
        try:
            watch.start()
            told_to_stop = False
            while not watch.ended.wait(STOP_SECONDS):
                if self.stop.is_set() and not told_to_stop:
                    told_to_stop = _stop(query)
        finally:
            # Also an error of the connection, with the query still running, ends a watch.
            if watch.error is not None or not watch.ended.is_set():
                _stop(query)
        if self._progressed(watch):
            self.failures_in_a_row = 0
            self.same_errors.clear()
        return watch.error

    def _progressed(self, watch: _Watch) -> bool:
        reached = watch.last_batch
        further = reached is not None and (self.last_batch is None or reached > self.last_batch)
        if further:
            self.last_batch = reached
        return further or watch.healthy_seconds >= self.healthy_after

    def _decide(self, diagnosis: Diagnosis) -> Verdict:
        if self.stop.is_set():
            return Verdict.STOPPED
        if diagnosis.outlook is Outlook.WILL_REPEAT:
            return Verdict.WILL_REPEAT
        same = self.same_errors[diagnosis.signature]
        if diagnosis.outlook is not Outlook.MAY_PASS and same >= self.same_error_limit:
            return Verdict.SAME_ERROR
        if self.failures_in_a_row > self.max_restarts:
            return Verdict.NO_RESTART_LEFT
        return Verdict.RESTART

    def _report(self, error: Exception, diagnosis: Diagnosis, verdict: Verdict) -> Failure:
        restarts = verdict is Verdict.RESTART
        failure = Failure(
            attempt=self.attempt,
            error=diagnosis.error,
            cause=diagnosis.cause,
            last_batch=self.last_batch,
            verdict=verdict,
            wait_seconds=self.backoff.seconds(self.failures_in_a_row) if restarts else 0.0,
        )
        self.failures.append(failure)
        logger.log(
            logging.WARNING if restarts else logging.ERROR,
            "Attempt %d of the query failed after batch %s; %s%s. Cause: %s",
            failure.attempt,
            "(none)" if failure.last_batch is None else failure.last_batch,
            verdict.value,
            f" in {failure.wait_seconds:.1f} s" if restarts else "",
            failure.cause,
        )
        logger.debug("The whole error of attempt %d:", failure.attempt, exc_info=error)
        if self.on_failure is not None:
            try:
                self.on_failure(failure)
            except Exception:
                # A pager that is out of reach is no reason to let the query lie.
                logger.exception("on_failure failed; the supervision goes on")
        return failure

    def _gives_up(self, diagnosis: Diagnosis, verdict: Verdict) -> SupervisionError:
        reached = (
            "No batch was applied."
            if self.last_batch is None
            else f"The last batch that was applied is {self.last_batch}."
        )
        cause = f"{diagnosis.cause}\n{reached}"
        if verdict is Verdict.WILL_REPEAT:
            return SupervisionError(
                "The query failed and was not started again: its error would come back.",
                cause,
                diagnosis.remedy or "Correct what the cause names, then start the query again.",
            )
        remedy = diagnosis.remedy or (
            "Correct what the cause names, then start the query again: it goes on after the last "
            "published batch."
        )
        if verdict is Verdict.SAME_ERROR:
            return SupervisionError(
                f"The query failed {self._times(self.same_errors[diagnosis.signature])} in the "
                f"same way without applying another batch; it was not started again.",
                cause,
                f"{remedy} If the cause may pass by itself, raise same_error_limit.",
            )
        return SupervisionError(
            f"The query failed {self._times(self.failures_in_a_row)} without applying another "
            f"batch; it was not started again, because max_restarts is {self.max_restarts}.",
            cause,
            f"{remedy} If the cause needs longer to pass, raise max_restarts.",
        )

    @staticmethod
    def _times(count: int) -> str:
        return "once" if count == 1 else f"{count} times"


class _Watch(threading.Thread):
    """Waits for the end of one run of a query, and notes its progress on the way.

    It is a thread of its own, so that an interrupt meets the caller's thread outside of any call
    into the JVM: a call that is broken off leaves its answer to be read by the next one.
    """

    def __init__(self, query: StreamingQuery, surroundings: Surroundings) -> None:
        super().__init__(name="tailrace-supervise", daemon=True)
        self.query = query
        self.surroundings = surroundings
        self.started_at = surroundings.clock()
        self.ended = threading.Event()
        self.error: Exception | None = None
        self.last_batch: int | None = None
        self.healthy_seconds = 0.0
        """From the start to the newest sign of life: the end of a trigger, idle or not."""
        self._seen: object = None

    def run(self) -> None:
        try:
            try:
                while not self.query.awaitTermination(PROGRESS_SECONDS):
                    self._observe()
            finally:
                self._observe()
            self.surroundings.drain(self.query)
        except Exception as error:
            self.error = error
        finally:
            self.ended.set()

    def _observe(self) -> None:
        try:
            progress: Any = self.query.lastProgress
        except Exception:  # if the connection is lost, awaitTermination will say so
            logger.debug("The progress of the query could not be read.", exc_info=True)
            return
        if progress is None:
            return
        seen = (progress.batchId, progress.timestamp)
        if seen == self._seen:
            return
        self._seen = seen
        self.healthy_seconds = self.surroundings.clock() - self.started_at
        # An idle trigger reports the batch that comes next.
        applied = progress.batchId if "addBatch" in progress.durationMs else progress.batchId - 1
        if applied >= 0:
            self.last_batch = applied


def _stop(query: StreamingQuery) -> bool:
    """Stops a query, from a thread of its own for the reason that `_Watch` has one."""
    stopped = False

    def stop() -> None:
        nonlocal stopped
        try:
            query.stop()
            stopped = True
        except Exception:
            logger.exception("The query could not be stopped.")

    thread = threading.Thread(target=stop, name="tailrace-stop", daemon=True)
    thread.start()
    thread.join()
    return stopped


def _check(name: str, value: object, rule: Rule) -> None:
    if not rule.accepts(value):
        raise OptionError(
            f"{name} does not take the value {value!r}.",
            f"{name} is {rule.allowed}.",
            f"Pass {name} as {rule.allowed}, or leave it out.",
        )


def _number(allowed: str, least: float, most: float = math.inf) -> Rule:
    return Rule(
        allowed,
        lambda value: (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(value)
            and least <= value <= most
        ),
    )
