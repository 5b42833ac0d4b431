"""Hints on their way: which keys get one, what the controller makes of the reports.

Problem: hints cost time and never results, so that no result shows whether the right ones were
sent, nor whether they were sent from the right place.
Answer: sketch, buffers and controller by themselves, with reports made by hand.
Invariant: a key that is hot gets none, every other key does; the controller's choice follows from
what it was told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.harness import HarnessJar, Remote
from support.seeds import SEED

CANDIDATES = ["in the task", "below the exchange", "below a filter", "at the source"]


class Hints(Remote):
    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "HintHarness")

    def choose(self, version: int, mode: str = "auto", names: list[str] = CANDIDATES) -> int:
        found: int = self.choice(version, mode, names)["level"]
        return found

    def choice(
        self, version: int, mode: str = "auto", names: list[str] = CANDIDATES
    ) -> dict[str, Any]:
        found: dict[str, Any] = self.call("choose", version=version, mode=mode, candidates=names)
        return found

    def batch(self, version: int, began: int = 1_000_000, **counts: Any) -> None:
        """Two tasks of a batch whose look-ups waited."""
        usual = {"cold": 1_000, "found": 500, "wait_ms": 100, "read": 1_000, "hinted": 1_000}
        for partition in range(2):
            reported = {**usual, "access_ms": 10, "began": began, **counts}
            self.call("used", partition=partition, version=version, **reported)

    def passed(self, version: int, began: int = 1_000_000, **slack: int) -> None:
        """The last rows passed the candidates so many milliseconds before the tasks began."""
        for name, millis in slack.items():
            self.call("passed", version=version, level=int(name[1:]), at=began - millis)


@pytest.fixture
def hints(harness_classes: HarnessJar) -> Iterator[Hints]:
    yield Hints(harness_classes)


# ---- the sketch


def test_a_key_is_hot_after_so_many_times(hints: Hints) -> None:
    hints.call("sketch", threshold=5, ages_after=1_000)
    assert hints.call("hot", hashes=[42] * 8) == [False] * 5 + [True] * 3


def test_counters_do_not_run_over(hints: Hints) -> None:
    hints.call("sketch", threshold=255, ages_after=10_000)
    assert hints.call("hot", hashes=[42] * 600) == [False] * 255 + [True] * 345


def test_what_was_hot_is_forgotten(hints: Hints) -> None:
    hints.call("sketch", threshold=8, ages_after=100)
    assert hints.call("hot", hashes=[42] * 20)[-1]
    others = list(range(1_000_000, 1_000_400))
    hints.call("hot", hashes=others)
    assert not hints.call("hot", hashes=[42])[0]


def test_few_cold_keys_look_hot(hints: Hints) -> None:
    """A sketch never counts too little; how often it counts too much is a matter of its size."""
    draw = random.Random(SEED)
    hints.call("sketch", threshold=24, ages_after=81_920)
    keys = [draw.getrandbits(31) for _ in range(20_000)]
    hot = [draw.getrandbits(31) for _ in range(20)]
    stream = keys * 2 + hot * 1_000
    draw.shuffle(stream)
    found = hints.call("hot", hashes=stream)
    wrong = sum(is_hot for key, is_hot in zip(stream, found, strict=True) if key not in hot)
    right = sum(is_hot for key, is_hot in zip(stream, found, strict=True) if key in hot)
    assert wrong < len(keys) / 100
    assert right > len(hot) * 900


# ---- the buffers of a task


def test_every_cold_key_is_sent_once_to_its_partition(hints: Hints) -> None:
    draw = random.Random(SEED)
    keys = sorted({draw.getrandbits(31) for _ in range(20_000)})
    hints.call("buffers", partitions=3, threshold=200)
    hints.call("add", rows=[[key, key % 3] for key in keys])
    sent = hints.call("flush")
    by_partition = {number: [] for number in range(3)}
    for message in sent:
        assert 0 < len(message["hashes"]) <= 4096
        by_partition[message["partition"]] += message["hashes"]
    assert by_partition == {
        number: [key for key in keys if key % 3 == number] for number in range(3)
    }


def test_a_key_that_comes_again_at_once_gets_one_hint(hints: Hints) -> None:
    hints.call("buffers", partitions=1, threshold=200)
    hints.call("add", rows=[[7, 0]] * 100)
    assert [message["hashes"] for message in hints.call("flush")] == [[7]]


def test_hot_keys_are_left_out_and_counted(hints: Hints) -> None:
    hints.call("buffers", partitions=1, threshold=10)
    # The other key has the same place among those sent last: without the sketch all would be sent.
    hints.call("add", rows=[[7, 0], [7 + 4096, 0]] * 100)
    (message,) = hints.call("flush")
    assert message["hashes"] == [7, 7 + 4096] * 10
    assert message["hot"] == 180


# ---- percentiles


def test_percentiles_are_right_to_a_fifth(hints: Hints) -> None:
    nanos = [1_000 * number for number in range(1, 1_001)]
    random.Random(SEED).shuffle(nanos)
    hints.call("latencies", nanos=nanos)
    for share in (0.5, 0.9, 0.99):
        found = hints.call("percentile", share=share)
        assert share * 1_000_000 <= found * 1.01 <= share * 1_200_000 * 1.01


# ---- the controller


@pytest.fixture
def controller(hints: Hints) -> Hints:
    hints.call("controller")
    assert hints.choose(0) == 0
    return hints


def test_no_hints_while_look_ups_do_not_wait(controller: Hints) -> None:
    for version in range(5):
        controller.batch(version, wait_ms=0)
        assert controller.choose(version + 1) == 0


def test_no_hints_while_reads_are_fast(controller: Hints) -> None:
    controller.batch(0, slow=False)
    assert controller.choose(1) == 0


def test_hints_begin_at_the_first_candidate(controller: Hints) -> None:
    controller.batch(0)
    found = controller.choice(1)
    assert found["level"] == 3
    assert found["markers"]
    assert "waited 200 ms in batch 0" in found["reason"]


def test_on_is_at_once_and_off_is_never(controller: Hints) -> None:
    controller.batch(0, wait_ms=0, slow=False)
    assert controller.choose(1, mode="on") == 3
    controller.batch(1)
    assert controller.choose(2, mode="off") == 0


def test_a_batch_that_is_planned_again_keeps_its_choice(controller: Hints) -> None:
    controller.batch(0)
    assert controller.choose(1) == 3
    controller.batch(1, in_vain=900)
    controller.batch(2, in_vain=900)
    assert [controller.choose(1), controller.choose(1)] == [3, 3]


def test_a_candidate_that_sees_other_keys_is_left_for_good(controller: Hints) -> None:
    controller.batch(0)
    assert controller.choose(1) == 3
    controller.batch(1, in_vain=100)
    assert controller.choose(2) == 3, "one batch is no pattern"
    controller.batch(2, in_vain=100)
    found = controller.choice(3)
    assert found["level"] == 2
    assert found["reason"] == "10 % of what was read for hints from at the source was not looked up"
    # Later it does not go back, however long look-ups wait.
    for version in range(3, 20):
        controller.batch(version, wait_ms=1_000)
        controller.passed(version, l1=0, l2=0, l3=500)
        assert controller.choose(version + 1) <= 2


def test_all_candidates_may_be_left(controller: Hints) -> None:
    controller.batch(0)
    controller.choose(1)
    for version in range(1, 10):
        controller.batch(version, in_vain=500)
        controller.choose(version + 1)
    found = controller.choice(11)
    assert found["level"] == 0


def test_the_last_candidate_that_leaves_enough_time_is_chosen(controller: Hints) -> None:
    controller.batch(0)
    assert controller.choose(1) == 3
    # An access takes 10 ms: the one below the exchange leaves less.
    controller.batch(1, wait_ms=0)
    controller.passed(1, l1=8, l2=40, l3=300)
    found = controller.choice(2)
    assert found["level"] == 2
    assert found["reason"] == "it leaves 40 ms, and an access takes 10 ms"


def test_slower_reads_call_for_an_earlier_candidate(controller: Hints) -> None:
    controller.batch(0)
    controller.choose(1)
    controller.batch(1, wait_ms=0)
    controller.passed(1, l1=30, l2=40, l3=300)
    assert controller.choose(2) == 1
    controller.batch(2, access_ms=100)
    assert controller.choose(3) == 2
    controller.batch(3, access_ms=100)
    assert controller.choose(4) == 3


def test_hints_end_when_all_is_in_memory(controller: Hints) -> None:
    controller.batch(0)
    controller.choose(1)
    for version in range(1, 30):
        controller.batch(version, cold=0, found=0, read=0, wait_ms=0)
        level = controller.choose(version + 1)
    assert level == 0
    assert controller.choice(31)["reason"] == "all that is looked up is in memory"
    controller.batch(31)
    assert controller.choose(32) == 3


def test_there_may_be_no_candidate(controller: Hints) -> None:
    controller.batch(0)
    assert controller.choice(1, names=["in the task"]) == {
        "level": 0,
        "markers": False,
        "reason": "no candidate before the task has the key",
    }


def test_reports_that_are_missing_change_nothing(controller: Hints) -> None:
    controller.batch(0)
    assert controller.choose(1) == 3
    for version in range(2, 10):
        assert controller.choose(version) == 3


# ---- owners


def test_owners_are_known_from_their_reports(controller: Hints) -> None:
    assert controller.call("routes", partitions=2) == [None, None]
    controller.call("listening", executor="1", host="127.0.0.1", port=4001)
    controller.call("listening", executor="2", host="127.0.0.1", port=4002)
    controller.call("used", executor="1", partition=0, version=0)
    controller.call("used", executor="2", partition=1, version=0)
    assert controller.call("routes", partitions=3) == [
        "1 127.0.0.1:4001",
        "2 127.0.0.1:4002",
        None,
    ]
    controller.call("used", executor="2", partition=0, version=1)
    controller.call("lost", executor="1")
    assert controller.call("routes", partitions=2) == ["2 127.0.0.1:4002"] * 2
    controller.call("lost", executor="2")
    assert controller.call("routes", partitions=2) == [None, None]
