"""The arguments of `supervise`: refused values, and the waits that a backoff gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.supervision import Script, World

from tailrace.errors import OptionError
from tailrace.supervise import Backoff, supervise


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
