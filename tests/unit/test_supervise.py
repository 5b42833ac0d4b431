"""Supervision with queries that follow a script, in a time that only the script moves on."""

from __future__ import annotations

import _thread
import logging
import random
import signal
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.errors import OptionError, SessionError, SupervisionError
from tailrace.supervise import KEPT_FAILURES, Backoff, Failure, Surroundings, Verdict, supervise

# One step of a script: a batch that was applied, an idle trigger that names the batch to come, or
# seconds that pass.
Step = tuple[str, float]


def batch(number: int) -> Step:
    return ("batch", number)


def idle(upcoming: int) -> Step:
    return ("idle", upcoming)


def seconds(number: float) -> Step:
    return ("seconds", number)


class Script:
    """A query that takes its steps one by one and then ends, with an error if it has one."""

    def __init__(self, *steps: Step, error: BaseException | None = None) -> None:
        self.steps = list(steps)
        self.error = error
        self.stops = 0
        self.lastProgress: Any = None
        self.world = World()

    def awaitTermination(self, timeout: float) -> bool:
        assert timeout > 0
        if self.steps:
            self._take(*self.steps.pop(0))
            return False
        if self.error is not None:
            raise self.error
        return True

    def _take(self, what: str, number: float) -> None:
        self.world.now += number if what == "seconds" else 0.25
        if what != "seconds":
            durations = {"triggerExecution": 5} | ({"addBatch": 3} if what == "batch" else {})
            self.lastProgress = SimpleNamespace(
                batchId=int(number), timestamp=str(self.world.now), durationMs=durations
            )

    def stop(self) -> None:
        self.stops += 1


class Endless(Script):
    """A query that runs until it is stopped; it says when somebody waits for it."""

    def __init__(self, *, stop_error: Exception | None = None, end_error: Exception | None = None):
        super().__init__()
        self.running = threading.Event()
        self.stopped = threading.Event()
        self.stop_error = stop_error
        self.end_error = end_error

    def awaitTermination(self, timeout: float) -> bool:
        self.running.set()
        ended = self.stopped.wait(min(timeout, 0.01))
        if ended and self.end_error is not None:
            raise self.end_error
        return ended

    def stop(self) -> None:
        super().stop()
        error, self.stop_error = self.stop_error, None
        if error is not None:
            raise error
        self.stopped.set()


class World:
    """The surroundings of a supervised query: a clock, waits that are noted, and the drain."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.drained: list[Script] = []
        self.drain_errors: list[Exception] = []
        self.reports: list[Failure] = []
        self.started: list[Script] = []

    def sleep(self, wait: float) -> None:
        self.waits.append(wait)
        self.now += wait

    def drain(self, query: Any) -> None:
        self.drained.append(query)
        if self.drain_errors:
            raise self.drain_errors.pop(0)

    def starter(self, *queries: Script | BaseException) -> Callable[[], Any]:
        remaining = list(queries)

        def start() -> Script:
            query = remaining.pop(0)
            if isinstance(query, BaseException):
                raise query
            query.world = self
            self.started.append(query)
            return query

        return start

    def run(self, *queries: Script | BaseException, **options: Any) -> Any:
        options.setdefault("on_failure", self.reports.append)
        surroundings = Surroundings(clock=lambda: self.now, sleep=self.sleep, drain=self.drain)
        return supervise(self.starter(*queries), surroundings=surroundings, **options)


@pytest.fixture
def world() -> World:
    return World()


def failing(*steps: Step, text: str = "the disk is gone") -> Script:
    return Script(*steps, error=RuntimeError(text))


def different(number: int) -> Script:
    """A failure that is not the same as another one: its class is its own."""
    return Script(error=type(f"Error{chr(97 + number)}", (Exception,), {})("odd"))


def test_a_query_that_ends_by_itself_is_drained_and_returned(world: World) -> None:
    query = Script(batch(0), batch(1))
    outcome = world.run(query)
    assert (outcome.restarts, outcome.failures, outcome.last_batch) == (0, (), 1)
    assert world.drained == [query]
    assert world.waits == []
    assert query.stops == 0


def test_a_failed_query_is_started_again_after_a_wait(world: World) -> None:
    first, second = failing(batch(3)), Script(batch(4))
    outcome = world.run(first, second)
    assert outcome.restarts == 1
    assert outcome.last_batch == 4
    assert world.waits == [1.0]
    assert list(outcome.failures) == world.reports
    (failure,) = outcome.failures
    assert failure == Failure(
        attempt=1,
        error="the disk is gone",
        cause="RuntimeError: the disk is gone",
        last_batch=3,
        verdict=Verdict.RESTART,
        wait_seconds=1.0,
    )
    assert failure.will_restart
    assert first.stops == 1, "a query may fail to be watched and still run"
    assert world.drained == [second]


def test_what_keeps_the_query_from_starting_is_a_failure_like_any_other(world: World) -> None:
    outcome = world.run(RuntimeError("no workers yet"), Script(batch(0)))
    assert outcome.restarts == 1
    assert world.reports[0].cause == "RuntimeError: no workers yet"
    assert world.reports[0].last_batch is None


def test_an_error_without_a_text_is_named(world: World) -> None:
    world.run(Script(error=RuntimeError()), Script())
    assert world.reports[0].error == "RuntimeError"
    assert world.reports[0].cause == "RuntimeError"


def test_the_waits_grow_and_progress_sets_them_back(world: World) -> None:
    queries = [different(number) for number in range(4)]
    queries.append(Script(batch(0), error=RuntimeError("again")))
    world.run(*queries, Script(), backoff=Backoff(first=2.0, factor=3.0, cap=20.0))
    assert world.waits == [2.0, 6.0, 18.0, 20.0, 2.0]


def test_the_same_error_without_progress_ends_it(world: World) -> None:
    with pytest.raises(SupervisionError) as caught:
        world.run(failing(batch(7)), failing(), failing())
    error = caught.value
    assert "3 times in the same way" in error.problem
    assert "RuntimeError: the disk is gone" in error.cause
    assert "The last batch that was applied is 7." in error.cause
    assert "same_error_limit" in error.remedy
    assert isinstance(error.__cause__, RuntimeError)
    assert [report.verdict for report in world.reports] == [
        Verdict.RESTART,
        Verdict.RESTART,
        Verdict.SAME_ERROR,
    ]
    assert not world.reports[-1].will_restart
    assert world.reports[-1].wait_seconds == 0.0
    assert world.drained == []


def test_errors_that_differ_in_a_number_are_the_same(world: World) -> None:
    queries = [failing(text=f"row {number} of file-{number}a is bad") for number in range(2)]
    with pytest.raises(SupervisionError, match="2 times in the same way"):
        world.run(*queries, same_error_limit=2)


def test_a_batch_that_is_applied_again_is_no_progress(world: World) -> None:
    with pytest.raises(SupervisionError) as caught:
        world.run(failing(batch(5)), failing(batch(5)), failing(batch(4), batch(5)))
    assert "3 times" in caught.value.problem
    assert len(world.started) == 3


def test_a_further_batch_each_time_is_progress_without_end(world: World) -> None:
    outcome = world.run(*[failing(batch(number)) for number in range(50)], Script(), max_restarts=1)
    assert outcome.restarts == 50
    assert set(world.waits) == {1.0}
    assert len(outcome.failures) == KEPT_FAILURES
    assert outcome.failures[-1].attempt == 50


def test_restarts_run_out(world: World) -> None:
    with pytest.raises(SupervisionError) as caught:
        world.run(*[different(number) for number in range(4)], max_restarts=3)
    assert "4 times without applying another batch" in caught.value.problem
    assert "max_restarts is 3" in caught.value.problem
    assert "No batch was applied." in caught.value.cause
    assert "max_restarts" in caught.value.remedy
    assert world.reports[-1].verdict is Verdict.NO_RESTART_LEFT


def test_without_restarts_the_first_failure_is_the_last(world: World) -> None:
    with pytest.raises(SupervisionError, match="failed once"):
        world.run(failing(batch(1)), max_restarts=0)


def test_an_error_known_to_come_back_is_not_tried_again(world: World) -> None:
    wrong = SessionError("No engine.", "No jar.", "Configure it.")
    with pytest.raises(SupervisionError) as caught:
        world.run(Script(error=wrong))
    assert "not started again: its error would come back" in caught.value.problem
    assert caught.value.__cause__ is wrong
    assert world.reports[0].verdict is Verdict.WILL_REPEAT
    assert world.waits == []


def test_an_outage_may_last_longer_than_the_limit_of_same_errors(world: World) -> None:
    queries = [Script(error=ConnectionRefusedError("no answer")) for _ in range(6)]
    assert world.run(*queries, Script(batch(0))).restarts == 6
    with pytest.raises(SupervisionError, match="max_restarts is 2"):
        World().run(*[Script(error=TimeoutError("late")) for _ in range(3)], max_restarts=2)


def test_a_healthy_time_without_a_batch_sets_the_counts_back(world: World) -> None:
    """A query without input, which loses its source once a day, is not given up after three."""
    day = [idle(6), seconds(86_400), idle(6)]
    outcome = world.run(*[failing(*day) for _ in range(9)], Script(), max_restarts=1)
    assert outcome.restarts == 9
    assert outcome.last_batch == 5


def test_a_long_batch_that_fails_each_time_is_no_healthy_time(world: World) -> None:
    """No trigger was finished: hours in one batch say nothing about the query's health."""
    with pytest.raises(SupervisionError, match="3 times"):
        world.run(*[failing(seconds(86_400)) for _ in range(3)])
    assert len(world.started) == 3


def test_an_idle_trigger_before_the_healthy_time_is_no_progress(world: World) -> None:
    with pytest.raises(SupervisionError, match="3 times"):
        world.run(*[failing(idle(6), seconds(599)) for _ in range(3)])
    assert world.reports[-1].last_batch == 5


def test_idle_before_the_first_batch_means_no_batch(world: World) -> None:
    assert world.run(Script(idle(0))).last_batch is None


def test_a_batch_that_is_not_published_fails_the_query(world: World) -> None:
    world.drain_errors = [RuntimeError("commits/1 could not be written")]
    first, second = Script(batch(0), batch(1)), Script(batch(1))
    outcome = world.run(first, second)
    assert outcome.restarts == 1
    assert world.reports[0].cause == "RuntimeError: commits/1 could not be written"
    assert world.drained == [first, second]


def test_a_batch_that_is_never_published_is_given_up(world: World) -> None:
    world.drain_errors = [RuntimeError("commits/1 could not be written") for _ in range(3)]
    with pytest.raises(SupervisionError, match="3 times"):
        world.run(*[Script(batch(1)) for _ in range(3)])


def test_without_spark_there_is_nothing_to_drain(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace._jvm.has_active_context", lambda: False)
    assert supervise(world.starter(Script(batch(0)))).last_batch == 0


def test_progress_that_cannot_be_read_does_not_end_the_query(world: World) -> None:
    class Mute(Script):
        @property
        def lastProgress(self) -> Any:
            raise RuntimeError("no connection")

        @lastProgress.setter
        def lastProgress(self, value: Any) -> None:
            pass

    assert world.run(Mute(batch(0))).last_batch is None


def test_a_report_that_fails_does_not_end_the_query(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def page(failure: Failure) -> None:
        raise OSError("the pager is out of reach")

    assert world.run(failing(), Script(), on_failure=page).restarts == 1
    assert "the pager is out of reach" in caplog.text


def test_each_failure_is_logged_with_its_cause(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(SupervisionError):
        world.run(failing(batch(2)), failing(), same_error_limit=2, on_failure=None)
    records = [record for record in caplog.records if record.name == "tailrace.supervise"]
    assert [record.levelno for record in records] == [logging.WARNING, logging.ERROR]
    assert "after batch 2; the query is started again in 1.0 s" in records[0].getMessage()
    assert "RuntimeError: the disk is gone" in records[1].getMessage()


@pytest.fixture
def plain_interrupts() -> Iterator[None]:
    """Interrupts as Python has them; PySpark puts a handler of its own into the process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("plain_interrupts")
def test_an_interrupt_stops_the_query_and_goes_on(world: World) -> None:
    query = Endless()

    def interrupt_when_running() -> None:
        query.running.wait()
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt_when_running)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        world.run(query)
    thread.join()
    assert query.stops == 1
    assert world.reports == []


def test_an_interrupt_while_starting_or_waiting_goes_on(world: World) -> None:
    with pytest.raises(KeyboardInterrupt):
        world.run(KeyboardInterrupt())

    def interrupted(wait: float) -> None:
        raise KeyboardInterrupt

    surroundings = Surroundings(sleep=interrupted, drain=world.drain)
    with pytest.raises(KeyboardInterrupt):
        supervise(world.starter(failing()), surroundings=surroundings)


def test_the_stop_event_ends_a_running_query() -> None:
    world, stop, query = World(), threading.Event(), Endless()

    def set_when_running() -> None:
        query.running.wait()
        stop.set()

    thread = threading.Thread(target=set_when_running)
    thread.start()
    outcome = world.run(query, stop=stop)
    thread.join()
    assert (outcome.restarts, query.stops) == (0, 1)
    assert world.drained == [query]


def test_a_stop_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world, stop = World(), threading.Event()
    query = Endless(stop_error=RuntimeError("it takes too long"))

    def start() -> Any:
        stop.set()
        return query

    outcome = supervise(start, stop=stop, surroundings=Surroundings(drain=world.drain))
    assert (outcome.failures, query.stops) == ((), 2)
    assert "it takes too long" in caplog.text


def test_a_failure_while_stopping_is_reported_and_not_raised() -> None:
    world, stop = World(), threading.Event()
    query = Endless(end_error=RuntimeError("interrupted in the middle"))

    def start() -> Any:
        stop.set()
        return query

    outcome = supervise(start, stop=stop, on_failure=world.reports.append)
    assert list(outcome.failures) == world.reports
    assert outcome.failures[0].verdict is Verdict.STOPPED


def test_the_stop_event_ends_a_wait() -> None:
    world, stop = World(), threading.Event()
    patient = Backoff(first=3600.0, cap=3600.0)
    outcome = supervise(
        world.starter(failing()), stop=stop, backoff=patient, on_failure=lambda _: stop.set()
    )
    assert outcome.restarts == 0
    assert len(outcome.failures) == 1


def test_a_stop_event_that_is_set_already_starts_nothing(world: World) -> None:
    stop = threading.Event()
    stop.set()
    outcome = world.run(failing(), stop=stop)
    assert (outcome.restarts, outcome.failures, world.started) == (0, (), [])


def test_a_query_that_somebody_stops_is_at_its_end(world: World) -> None:
    query = Endless()

    def stop_when_running() -> None:
        query.running.wait()
        query.stop()

    thread = threading.Thread(target=stop_when_running)
    thread.start()
    assert world.run(query).restarts == 0
    thread.join()
    assert world.drained == [query]


def test_a_function_that_returns_no_query_is_told() -> None:
    with pytest.raises(OptionError) as caught:
        supervise(lambda: None)  # type: ignore[arg-type,return-value]
    assert "It returned None." in caught.value.cause


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_restarts", -1),
        ("max_restarts", 1.5),
        ("same_error_limit", 0),
        ("healthy_after", 0),
        ("healthy_after", "60s"),
    ],
)
def test_values_out_of_range_are_refused(world: World, name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        world.run(Script(), **{name: value})
    assert name in str(caught.value)
    assert world.started == []


@pytest.mark.parametrize(
    "fields",
    [
        {"first": 0},
        {"first": True},
        {"factor": 0.5},
        {"first": 5.0, "cap": 4.0},
        {"cap": float("inf")},
        {"jitter": 1.5},
        {"jitter": -0.1},
    ],
)
def test_a_backoff_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Backoff(**fields)


def test_waits_grow_to_their_cap_and_no_count_is_too_large() -> None:
    backoff = Backoff(first=0.5, factor=2.0, cap=3.0)
    assert [backoff.seconds(count) for count in (1, 2, 3, 4, 10**9)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    constant = Backoff(first=2.0, factor=1.0, cap=9.0)
    assert [constant.seconds(count) for count in (1, 5, 10**9)] == [2.0, 2.0, 2.0]


def test_jitter_takes_off_a_share_that_the_seed_decides() -> None:
    def waits(seed: int) -> list[float]:
        backoff = Backoff(first=8.0, cap=8.0, jitter=0.25, random=random.Random(seed))
        return [backoff.seconds(count) for count in range(1, 200)]

    assert waits(1) == waits(1)
    assert waits(1) != waits(2)
    assert all(6.0 <= wait <= 8.0 for wait in waits(1))
    assert max(waits(1)) - min(waits(1)) > 1.5
