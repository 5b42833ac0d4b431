"""Percentiles, ratios, arrivals and deadlines, without Spark."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tailrace.bench.gate import Turn
from tailrace.bench.loops import Arrivals, ClosedLoop, Deadline, OpenLoop
from tailrace.bench.ratios import ratio, ratios
from tailrace.bench.runner import shares
from tailrace.bench.screen import Screen
from tailrace.bench.statistics import percentile, spread, summary, weighted_percentile
from tailrace.bench.stores import chosen


def rows(*rounds: list[float], repeat: int = 0) -> list[dict[str, Any]]:
    return [
        {"repeat": repeat, "round": number, "seconds": seconds, "rows": 10}
        for number, times in enumerate(rounds)
        for seconds in times
    ]


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(n) for n in range(1, 1001)]
    assert [percentile(values, p) for p in (50, 95, 99, 99.9)] == [500, 950, 990, 999]
    assert percentile([7.0], 99.9) == 7.0
    assert summary([]) == {}


def test_a_weighted_percentile_counts_weights() -> None:
    assert weighted_percentile([(1.0, 90), (5.0, 10)], 50) == 1.0
    assert weighted_percentile([(1.0, 90), (5.0, 10)], 95) == 5.0


def test_a_ratio_is_of_medians_and_has_the_spread_of_its_rounds() -> None:
    found = ratio(rows([2, 2, 9], [4, 4, 4]), rows([1, 1, 1], [2, 2, 2]))
    assert found["median"] == pytest.approx(4 / 1.5)
    assert found["rounds"]["values"] == [2.0, 2.0]
    assert found["stable"] is True
    assert found["spread_of"] == "rounds"


def test_rounds_that_differ_by_more_than_15_percent_are_not_stable() -> None:
    assert ratio(rows([2], [2.3]), rows([1], [1]))["stable"] is True
    assert ratio(rows([2], [2.31]), rows([1], [1]))["stable"] is False


def test_repeats_decide_where_there_are_some() -> None:
    reference = rows([2], [4]) + rows([3], [3], repeat=1)
    found = ratio(reference, rows([1], [1]) + rows([1], [1], repeat=1))
    assert found["spread_of"] == "repeats"
    assert found["repeats"]["values"] == [3.0, 3.0]
    assert found["stable"] is True
    assert found["rounds"]["stable"] is False


def test_the_references_are_the_better_rocksdb_the_best_of_spark_and_the_floor() -> None:
    stores = chosen(["rocksdb", "rocksdb-changelog", "hdfs", "tailrace", "none"])
    times = {"rocksdb": 5.0, "rocksdb-changelog": 4.0, "hdfs": 3.0, "tailrace": 2.0, "none": 1.0}
    found = ratios(stores, {name: rows([time]) for name, time in times.items()})
    assert {name: each["reference"] for name, each in found.items()} == {
        "better_rocksdb": "rocksdb-changelog",
        "best_of_spark": "hdfs",
        "floor": "none",
    }
    assert found["better_rocksdb"]["stores"]["tailrace"]["median"] == 2.0
    assert found["best_of_spark"]["stores"]["tailrace"]["median"] == 1.5
    assert found["floor"]["stores"]["tailrace"]["median"] == 0.5


def test_each_percentile_is_against_its_own_best() -> None:
    """One rival has the shorter median, the other the shorter slowest batch."""
    steady, spiky = rows([3, 3, 3], [3, 3, 3]), rows([2, 2, 9], [2, 2, 9])
    found = ratios(
        chosen(["rocksdb", "rocksdb-changelog", "tailrace"]),
        {"rocksdb": steady, "rocksdb-changelog": spiky, "tailrace": rows([1, 1, 1], [1, 1, 1])},
    )["better_rocksdb"]
    assert (found["reference"], found["reference_at_p99"]) == ("rocksdb-changelog", "rocksdb")
    assert found["stores"]["tailrace"]["median"] == 2.0
    assert found["stores"]["tailrace"]["p99"] == 3.0
    assert (found["stores"]["tailrace"]["p99_min"], found["stores"]["tailrace"]["p99_max"]) == (
        3,
        3,
    )


def test_a_store_that_was_not_reached_is_in_no_ratio() -> None:
    found = ratios(chosen(["rocksdb", "tailrace"]), {"rocksdb": rows([1.0])})
    assert found["better_rocksdb"]["stores"] == {}


def test_only_the_same_work_is_compared() -> None:
    small = [row | {"rows": 5} for row in rows([1.0])]
    assert ratio(rows([1.0]), rows([1.0]))["of"] == "batch time"
    assert ratio(rows([1.0]), small) == ratio(rows([1.0]), rows([2.0])) | {"of": "time per row"}
    slow = [row | {"latency_seconds": [6.0, 2.0]} for row in rows([1.0])]
    fast = [row | {"latency_seconds": [1.0]} for row in rows([1.0])]
    assert ratio(slow, fast)["of"] == "latency"
    assert ratio(slow, fast)["p99"] == 6.0


def test_the_spread_of_one_value_is_that_value() -> None:
    assert spread([2.0])["iqr"] == [2.0, 2.0]
    assert spread([]) == {}


def test_batches_are_shared_evenly_among_rounds() -> None:
    assert shares(10, 3) == [3, 3, 4]
    assert shares(5, 5) == [1] * 5


def test_arrivals_are_a_function_of_the_seed_and_keep_their_mean() -> None:
    one, other = Arrivals(1000, 0.1, seed=7), Arrivals(1000, 0.1, seed=7)
    assert one.by(123.4) == other.by(123.4)
    assert 95_000 < one.by(100) < 105_000
    for number in (0, 1, 999, 54_321):
        moment = one.time_of(number)
        assert one.by(moment + 1e-6) >= number + 1 > one.by(moment - 1e-3) - 1


class Machine:
    """A clock, and a query that takes a fixed time and some more per row."""

    def __init__(self, fixed: float, per_row: float) -> None:
        self.time = 0.0
        self.fixed, self.per_row = fixed, per_row
        self.sizes: list[int] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def __call__(self, size: int) -> Turn:
        self.sizes.append(size)
        took = self.fixed + self.per_row * size
        self.time += took
        return Turn(sum(self.sizes), 0.0, took)


def test_an_open_loop_takes_what_arrived_and_counts_the_wait() -> None:
    machine = Machine(fixed=0.5, per_row=0.0)
    loop = OpenLoop(Arrivals(100, 0.0, 1), 1.0, now=machine.now, sleep=machine.sleep)
    loop.begin()
    _, size, extra = loop.batch(machine)
    assert size == 100
    assert extra["latency_seconds"][0] == pytest.approx(1.5, abs=0.02)
    assert extra["latency_seconds"][-1] == pytest.approx(0.55, abs=0.02)


def test_a_slow_store_queues_and_its_latency_grows() -> None:
    machine = Machine(fixed=0.0, per_row=0.02)  # half as fast as events arrive
    loop = OpenLoop(Arrivals(100, 0.0, 1), 1.0, now=machine.now, sleep=machine.sleep)
    loop.begin()
    latencies = [max(loop.batch(machine)[2]["latency_seconds"]) for _ in range(5)]
    assert latencies == sorted(latencies)
    assert latencies[-1] > 5 * latencies[0]


def test_the_clock_of_a_store_stands_still_while_others_run() -> None:
    machine = Machine(fixed=0.5, per_row=0.0)
    loop = OpenLoop(Arrivals(100, 0.0, 1), 1.0, now=machine.now, sleep=machine.sleep)
    loop.begin()
    loop.batch(machine)
    loop.pause()
    machine.time += 1000
    loop.begin()
    _, size, extra = loop.batch(machine)
    assert size == 100
    assert max(extra["latency_seconds"]) < 2


def test_a_deadline_bounds_the_time_of_a_batch() -> None:
    machine = Machine(fixed=0.2, per_row=0.01)
    loop = ClosedLoop(1000, Deadline(1.0, most=1000))
    taken = [loop.batch(machine)[0].seconds for _ in range(8)]
    assert taken[0] > 10, "nothing is known before the first batch"
    assert all(seconds <= 1.01 for seconds in taken[3:])
    assert machine.sizes[-1] == pytest.approx(80, abs=2)


def test_a_deadline_leaves_the_rest_for_the_next_batch() -> None:
    machine = Machine(fixed=0.0, per_row=0.02)
    deadline = Deadline(1.0, most=10_000)
    loop = OpenLoop(Arrivals(100, 0.0, 1), 1.0, deadline, machine.now, machine.sleep)
    loop.begin()
    left = [loop.batch(machine)[2]["left_waiting"] for _ in range(6)]
    assert machine.sizes[1:] == [50] * 5
    assert left[-1] > left[1] > 0


def test_the_time_left_is_told_once_it_is_known() -> None:
    """Steps of 2 s, after a first one that took 100 s to start Spark."""
    times = iter([0.0, *(100.0 + 2 * n for n in range(100))])
    shown = io.StringIO()
    screen = Screen(100, shown, now=lambda: next(times))
    for _ in range(100):
        screen.step("q5")
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    assert lines[0] == "1/100 batches, q5"
    assert lines[1] == "4/100 batches, q5"
    assert lines[2] == "7/100 batches, q5, 3 min left"
    assert "52/100 batches, q5, 96 s left" in lines
