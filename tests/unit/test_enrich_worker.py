"""The enrichment in a worker: how far it reads ahead, and which values the next task finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tailrace.enrich import Key, Record, Source, Table, Wanted, worker
from tailrace.enrich.settings import Settings
from tailrace.enrich.worker import MOST_MANAGERS, Job, look_up
from tailrace.errors import EnrichmentError, SourceUnavailableError

SCHEMA = StructType().add("name", "string")


class Shelf(Source, Table):
    """A table that is a dict, and its only connection."""

    def __init__(self) -> None:
        self.records: dict[Key, str] = {}
        self.keys_read: list[Key] = []
        self.closed = 0
        self.error: Exception | None = None

    def connect(self, wanted: Wanted) -> Table:  # noqa: ARG002 - there is one
        return self

    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        if self.error:
            raise self.error
        self.keys_read += keys
        return {key: {"name": self.records[key]} for key in keys if key in self.records}

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    it = Shelf()
    it.records = {key: key.upper() for key in "abcdefgh"}
    worker._managers.clear()
    yield it
    while worker._managers:
        worker._managers.popitem()[1].close()


def job(shelf: Shelf, identity: str = "one", **settings: Any) -> Job:
    chosen = Settings(**{"connections": 1, "ttl": None, **settings})
    return Job(identity, shelf, ("key",), SCHEMA, False, "UTC", chosen)


class Batches:
    """Batches of a task. Counts how many have been taken."""

    def __init__(self, *batches: str) -> None:
        self._batches = [[None if key == "-" else key for key in batch] for batch in batches]
        self.taken = 0

    def __iter__(self) -> Iterator[tuple[pa.Array, ...]]:
        for batch in self._batches:
            self.taken += 1
            yield (pa.array(batch, pa.string()),)


def names(made: pa.Array) -> str:
    return "".join("-" if record is None else record["name"] for record in made.to_pylist())


def run(it: Job, *batches: str) -> tuple[list[str], dict[str, int]]:
    counted: list[dict[str, int]] = []
    made = [names(part) for part in look_up(it, Batches(*batches), counted.append)]
    (counts,) = counted
    return made, counts


def test_for_every_row_there_is_a_record_in_the_same_order(shelf: Shelf) -> None:
    made, counts = run(job(shelf), "abca", "-?b", "", "--", "ha")
    assert made == ["ABCA", "--B", "", "--", "HA"]
    assert counts["rows"] == 8
    assert sorted(map(str, shelf.keys_read)) == ["?", "a", "b", "c", "h"]


@pytest.mark.parametrize(("look_ahead", "taken"), [(0, [1, 2, 3, 4]), (2, [3, 4, 4, 4])])
def test_batches_are_taken_ahead_of_their_turn(
    shelf: Shelf, look_ahead: int, taken: list[int]
) -> None:
    batches = Batches("a", "b", "c", "d")
    seen = [batches.taken for _ in look_up(job(shelf, look_ahead=look_ahead), batches, print)]
    assert seen == taken


def test_no_batch_is_taken_ahead_if_its_records_would_not_fit(shelf: Shelf) -> None:
    batches = Batches("ab", "cd", "ef")
    it = job(
        shelf, look_ahead=2, cache_memory="1k"
    )  # two records, and half of that for those ahead
    assert [batches.taken for _ in look_up(it, batches, print)] == [1, 2, 3]


def test_values_stay_from_task_to_task(shelf: Shelf) -> None:
    run(job(shelf), "ab")
    shelf.records = dict.fromkeys("abc", "new")
    made, counts = run(dataclasses.replace(job(shelf), source=Shelf()), "abc")
    assert made == ["ABnew"], "the second task has the connection of the first"
    assert counts["used_before"] == 2


def test_another_enrichment_has_values_of_its_own(shelf: Shelf) -> None:
    run(job(shelf), "ab")
    made, counts = run(job(shelf, "two"), "ab")
    assert made == ["AB"]
    assert counts["keys_read"] == 2


def test_a_process_remembers_some_enrichments(shelf: Shelf) -> None:
    for number in range(MOST_MANAGERS):
        run(job(shelf, f"{number}"), "a")
    run(job(shelf, "0"), "a")
    run(job(shelf, "another"), "a")
    assert len(worker._managers) == MOST_MANAGERS
    assert "0" in worker._managers
    assert "1" not in worker._managers


def test_a_task_that_fails_leaves_values_and_connections_for_the_next(shelf: Shelf) -> None:
    run(job(shelf), "ab")
    shelf.error = RuntimeError("once")
    with pytest.raises(EnrichmentError, match="once"):
        run(job(shelf), "ac")
    shelf.error = None
    made, counts = run(job(shelf), "acb")
    assert made == ["ACB"]
    assert counts["used_before"] == 2


def test_a_task_that_found_a_connection_hung_leaves_nothing(shelf: Shelf) -> None:
    run(job(shelf), "a")
    fetcher = worker._managers["one"]._fetcher
    fetcher.broken = True  # how it comes to this is in test_enrich_manager.py
    run(job(shelf), "a")
    assert worker._managers == {}
    made, counts = run(job(shelf), "a")
    assert (made, counts["keys_read"]) == (["A"], 1)


def test_a_task_that_ends_before_its_last_batch(shelf: Shelf) -> None:
    counted: list[dict[str, int]] = []
    parts = look_up(job(shelf), Batches("a", "b", "c"), counted.append)
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert counted[0]["rows"] == 1
    assert run(job(shelf), "abc")[0] == ["ABC"]


def test_an_outage_is_told_to_the_task(shelf: Shelf) -> None:
    shelf.error = ConnectionError("refused")
    with pytest.raises(SourceUnavailableError, match="Shelf gave no answer within 1ms"):
        run(job(shelf, timeout="1ms"), "a")
