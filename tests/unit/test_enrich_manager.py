"""The prefetching manager of an enrichment: its reads, their order and number, and its errors.

Problem: reads are made by other threads, and the rows' thread is to wait for as few as possible.
Answer: a table in this process whose requests a test can hold back, and a clock that stands still.
Invariant: nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tailrace.enrich.fetcher import Surroundings
from tailrace.enrich.manager import PrefetchManager
from tailrace.enrich.settings import Settings
from tailrace.enrich.source import Key, Record, Source, Table, Wanted
from tailrace.errors import EnrichmentError, SourceUnavailableError, TailraceError
from tailrace.supervise import Backoff

PATIENCE_SECONDS = 300
SCHEMA = StructType().add("name", "string").add("size", "integer")


class Shelf(Source, Table):
    """A table that is a dict, and its only connection."""

    name = "shelf"

    def __init__(self) -> None:
        self.records: dict[Key, dict[str, Any]] = {}
        self.requests: list[list[Key]] = []
        self.errors: list[BaseException] = []
        self.connections = 0
        self.closed = 0
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Semaphore(0)

    def connect(self, wanted: Wanted) -> Table:
        assert wanted.columns == ("name", "size")
        self.connections += 1
        return self

    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        self.requests.append(list(keys))
        self.asked.release()
        assert self.open.wait(PATIENCE_SECONDS)
        if self.errors:
            raise self.errors.pop(0)
        return {key: self.records[key] for key in keys if key in self.records}

    def close(self) -> None:
        self.closed += 1

    def wait_until_asked(self) -> None:
        assert self.asked.acquire(timeout=PATIENCE_SECONDS)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0
        self.when_read: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        self.when_read()
        return self.time


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    it = Shelf()
    it.records = {key: {"name": key.upper(), "size": place} for place, key in enumerate("abcdef")}
    yield it
    it.open.set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., PrefetchManager]


@pytest.fixture
def make(shelf: Shelf, clock: Clock) -> Iterator[Make]:
    made: list[PrefetchManager] = []

    def new(around: Mapping[str, Any] | None = None, **settings: Any) -> PrefetchManager:
        backoff = Backoff(first=0.001, cap=0.001)
        surroundings = Surroundings(**{"now": clock, "backoff": backoff, **(around or {})})
        chosen = Settings(**{"connections": 1, "timeout": "30s", **settings})
        made.append(PrefetchManager(shelf, ("key",), SCHEMA, "UTC", chosen, surroundings))
        return made[-1]

    yield new
    for manager in made:
        manager.close()


def names(records: Mapping[Key, Any]) -> dict[Key, Any]:
    return {key: values and values[0] for key, values in records.items()}


def counts(manager: PrefetchManager) -> dict[str, int]:
    kinds = ("used_before", "prefetched", "late", "misses")
    return {name: count for name, count in manager.report().items() if name in kinds}


def test_records_come_in_the_types_of_the_columns(shelf: Shelf, make: Make) -> None:
    shelf.records["t"] = {"name": b"text", "size": b"7", "other": 1}
    manager = make()
    assert manager.take(manager.expect(["a", "t", "?"], None)) == {
        "a": ("A", 0),
        "t": ("text", 7),
        "?": None,
    }
    report = manager.report()
    assert (report["missing"], report["keys_read"], report["requests"]) == (1, 3, 1)
    assert report["bytes_read"] > 0


def test_a_key_that_was_read_is_not_read_again(shelf: Shelf, make: Make) -> None:
    manager = make()
    manager.take(manager.expect(["a", "?"], None))
    counts(manager)
    assert names(manager.take(manager.expect(["?", "a", "b"], None))) == {
        "?": None,
        "a": "A",
        "b": "B",
    }
    assert shelf.requests == [["a", "?"], ["b"]]
    assert counts(manager) in ({"used_before": 2, late: 1} for late in ("late", "prefetched"))


def test_a_key_in_flight_is_waited_for_and_not_asked_again(shelf: Shelf, make: Make) -> None:
    shelf.open.clear()
    manager = make()
    first = manager.expect(["a", "b"], None)
    shelf.wait_until_asked()
    second = manager.expect(["b", "c"], None)
    shelf.open.set()
    assert names(manager.take(second)) == {"b": "B", "c": "C"}
    assert names(manager.take(first)) == {"a": "A", "b": "B"}
    assert shelf.requests == [["a", "b"], ["c"]]


def test_a_read_ahead_is_prefetched_or_late_and_without_one_it_is_a_miss(
    shelf: Shelf, make: Make, clock: Clock
) -> None:
    shelf.open.clear()
    manager = make()
    late = manager.expect(["a"], None)
    shelf.wait_until_asked()
    clock.when_read = shelf.open.set  # take reads it when it begins to wait
    manager.take(late)
    assert counts(manager) == {"late": 1}

    early = manager.expect(["b"], None)
    other = manager.expect(["c"], None)
    manager.take(other)  # there is one connection: c comes after b
    counts(manager)
    manager.take(early)
    assert counts(manager) == {"prefetched": 1}

    manager.take(manager.expect(["d"], None, ahead=False))
    assert counts(manager) == {"misses": 1}


def test_many_keys_are_cut_into_requests(shelf: Shelf, make: Make) -> None:
    manager = make(keys_per_request=2)
    assert len(manager.take(manager.expect(list("abcde"), None))) == 5
    assert shelf.requests == [["a", "b"], ["c", "d"], ["e"]]


def test_several_requests_are_made_at_the_same_time(shelf: Shelf, make: Make) -> None:
    shelf.open.clear()
    manager = make(keys_per_request=1, connections=3)
    expected = manager.expect(list("abcde"), None)
    for _ in range(3):
        shelf.wait_until_asked()  # the three are in the table, and none has been answered
    assert len(shelf.requests) == shelf.connections == 3
    shelf.open.set()
    assert len(manager.take(expected)) == 5
    assert shelf.connections == 3


def test_a_value_is_used_until_its_time_is_over(shelf: Shelf, make: Make, clock: Clock) -> None:
    manager = make(ttl="10s", missing_ttl="2s")
    manager.take(manager.expect(["a", "?"], None))
    shelf.records |= {"a": {"name": "new"}, "?": {"name": "there"}}
    clock.time += 1.9
    assert names(manager.take(manager.expect(["a", "?"], None))) == {"a": "A", "?": None}
    clock.time += 0.1
    assert names(manager.take(manager.expect(["a", "?"], None))) == {"a": "A", "?": "there"}
    clock.time += 8
    assert names(manager.take(manager.expect(["a", "?"], None))) == {"a": "new", "?": "there"}
    assert manager.report()["expired"] == 2


def test_without_a_time_to_live_values_are_kept(shelf: Shelf, make: Make, clock: Clock) -> None:
    manager = make(ttl=None, missing_ttl="0s")
    manager.take(manager.expect(["a", "?"], None))
    shelf.records |= {"a": {"name": "new"}, "?": {"name": "there"}}
    clock.time += 1e9
    assert names(manager.take(manager.expect(["a", "?"], None))) == {"a": "A", "?": "there"}


def test_a_value_that_gets_too_old_while_its_batch_waits_is_read_again(
    shelf: Shelf, make: Make, clock: Clock
) -> None:
    manager = make(ttl="10s")
    manager.take(manager.expect(["a"], None))
    counts(manager)
    waiting = manager.expect(["a", "b"], None)
    manager.take(manager.expect(["c"], None))  # one connection: b has come, too
    shelf.records |= {"a": {"name": "new"}, "b": {"name": "new"}}
    clock.time += 10
    counts(manager)
    # b was read after its row had come, a before.
    assert names(manager.take(waiting)) == {"a": "new", "b": "B"}
    assert counts(manager) == {"prefetched": 1, "misses": 1}


def test_a_cache_smaller_than_a_batch_costs_requests_only(shelf: Shelf, make: Make) -> None:
    shelf.records = {number: {"name": "x" * 1000, "size": number} for number in range(100)}
    manager = make(cache_memory="8k")
    for _ in range(2):
        found = manager.take(manager.expect(list(range(100)), None))
        assert {key: values and values[1] for key, values in found.items()} == {
            number: number for number in range(100)
        }
    report = manager.report()
    assert report["keys_read"] >= 190
    assert report["evicted"] >= 180


def test_there_is_room_for_half_the_budget(make: Make) -> None:
    manager = make(cache_memory="1m")
    manager.take(manager.expect(list("abc"), None))
    assert manager.has_room(100)
    assert not manager.has_room(1 << 20)


def test_event_times_decide_what_stays(shelf: Shelf, make: Make) -> None:
    shelf.records = {key: {"name": "x" * 2000} for key in "abcd"}
    manager = make(cache_memory="8k")  # three records
    manager.take(manager.expect(["a", "b", "c"], [30, 10, 20]))
    manager.take(manager.expect(["d"], [25]))
    shelf.requests.clear()
    manager.take(manager.expect(["a", "c", "d"], [30, 20, 25]))
    assert shelf.requests == []
    manager.take(manager.expect(["b"], [10]))
    assert shelf.requests == [["b"]]


def test_a_key_in_flight_gets_the_time_of_the_latest_row_that_expects_it(
    shelf: Shelf, make: Make
) -> None:
    shelf.records = {key: {"name": "x" * 2000} for key in "abcd"}
    shelf.open.clear()
    manager = make(cache_memory="8k")  # three records
    first = manager.expect(["a"], [1])
    shelf.wait_until_asked()
    second = manager.expect(["a"], [100])
    shelf.open.set()
    assert manager.take(first) == manager.take(second)
    manager.take(manager.expect(["b", "c", "d"], [50, 60, 70]))
    shelf.requests.clear()
    manager.take(manager.expect(["a", "c", "d"], [0, 0, 0]))
    assert shelf.requests == []


def test_an_outage_that_passes_costs_a_retry(shelf: Shelf, make: Make) -> None:
    shelf.errors = [ConnectionError("lost"), TimeoutError()]
    manager = make()
    assert names(manager.take(manager.expect(["a"], None))) == {"a": "A"}
    assert (shelf.connections, shelf.closed) == (3, 2)
    assert manager.report()["retries"] == 2


def test_an_outage_that_lasts_is_an_error_with_the_server_and_the_remedy(
    shelf: Shelf, make: Make, clock: Clock
) -> None:
    shelf.errors = [ConnectionError("refused")] * 3

    def a_long_time(_: BaseException) -> None:
        clock.time += 20

    manager = make({"on_retry": a_long_time})
    with pytest.raises(SourceUnavailableError) as raised:
        manager.take(manager.expect(["a"], None))
    assert raised.value.problem == "shelf gave no answer within 30s."
    assert raised.value.cause == "ConnectionError: refused"
    assert "longer timeout" in raised.value.remedy
    # Nothing of it is remembered.
    shelf.errors = []
    assert names(manager.take(manager.expect(["a"], None))) == {"a": "A"}


@pytest.mark.parametrize(
    "error", [RuntimeError("no such table"), PermissionError("not allowed"), SystemExit("enough")]
)
def test_an_error_that_would_come_back_is_not_tried_again(
    shelf: Shelf, make: Make, error: BaseException
) -> None:
    shelf.errors = [error]
    manager = make()
    with pytest.raises(EnrichmentError, match=str(error)):
        manager.take(manager.expect(["a"], None))
    assert len(shelf.requests) == 1
    assert names(manager.take(manager.expect(["a"], None))) == {"a": "A"}


def test_a_wrong_value_names_key_and_column(shelf: Shelf, make: Make) -> None:
    shelf.records["a"]["size"] = "large"
    manager = make()
    with pytest.raises(EnrichmentError) as raised:
        manager.take(manager.expect(["a"], None))
    assert raised.value.problem.startswith("Column size of key 'a' in shelf has the value 'large'")


def test_a_failed_read_ahead_fails_the_batch_that_needs_it_and_no_other(
    shelf: Shelf, make: Make
) -> None:
    shelf.errors = [RuntimeError("once")]
    manager = make()
    first = manager.expect(["a"], None)
    shelf.wait_until_asked()
    second = manager.expect(["b"], None)
    assert names(manager.take(second)) == {"b": "B"}
    with pytest.raises(EnrichmentError, match="once"):
        manager.take(first)


def test_a_connection_that_never_comes_back_is_given_up(
    shelf: Shelf, make: Make, clock: Clock
) -> None:
    shelf.open.clear()
    manager = make({"grace": 0.001}, timeout="3ms")
    running = manager.expect(["a"], None)
    queued = manager.expect(["b"], None)
    shelf.wait_until_asked()
    clock.time += 1
    for expected in (queued, running):
        with pytest.raises(SourceUnavailableError, match="its connection hangs"):
            manager.take(expected)
    assert manager.broken


def test_a_manager_that_is_closed_lets_its_connections_go(shelf: Shelf, make: Make) -> None:
    manager = make()
    manager.take(manager.expect(["a"], None))
    threads = [it for it in threading.enumerate() if it.name.startswith("tailrace-enrich")]
    manager.close()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert shelf.closed == 1


def test_the_errors_are_our_own() -> None:
    for kind in (EnrichmentError, SourceUnavailableError):
        assert issubclass(kind, TailraceError)
