"""How supervision ends from outside: interrupts, the stop event, a query that is stopped."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.supervision import Endless, World, failing

from tailrace.supervise import Backoff, Surroundings, Verdict, supervise


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


def test_a_query_that_the_program_stops_is_at_its_end(world: World) -> None:
    query = Endless()

    def stop_when_running() -> None:
        query.running.wait()
        query.stop()

    thread = threading.Thread(target=stop_when_running)
    thread.start()
    assert world.run(query).restarts == 0
    thread.join()
    assert world.drained == [query]
