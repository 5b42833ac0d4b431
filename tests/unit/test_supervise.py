"""`supervise` after a failure: queries follow a script, which alone moves time on."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.supervision import Script, World, batch, different, failing, idle, seconds

from tailrace.errors import SessionError, SupervisionError
from tailrace.supervise import KEPT_FAILURES, Backoff, Failure, Verdict, supervise


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
    """A query without input that loses its source once a day is restarted every time."""
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
