"""Rule 7 with executors that are processes of their own: one is killed with state on its way.

Problem: in local mode driver and executor die together, so no test shows how the driver handles
the loss of an executor alone, nor whether the two understand each other at all.
Answer: a cluster of two executors on this machine (support/losing.py).
Invariant: the query fails and says why; the next start goes on from the last published batch, and
every row is counted once. Without the rule the query waits for ever.
"""

from __future__ import annotations

from pathlib import Path

from support.processes import Program

EXPECTED = {"oak": 3, "elm": 2, "fir": 2} | dict.fromkeys(["ash", "yew", "pine", "box", "holly"], 1)


def test_the_query_fails_clearly_and_starts_again(tmp_path: Path) -> None:
    with Program("support.losing", tmp_path) as program:
        lost = program.expect("lost")
        restarted = program.expect("restarted")
        program.expect("over")
    assert lost["packs"] == 2, "one pack for each executor, whatever the number of partitions"
    assert lost["before"] == [0]
    assert lost["failed"]
    assert "was lost with state of batch 1 that was not durable yet" in lost["error"]
    assert lost["published"] == [0]
    assert restarted["totals"] == EXPECTED
    assert restarted["conflicts"] == []


def test_without_the_rule_nothing_is_published_again(tmp_path: Path) -> None:
    off = {"TAILRACE_RULES_OFF": "7"}
    with Program("support.losing", tmp_path, environment=off) as program:
        lost = program.expect("lost")
        program.expect("over")
    assert not lost["failed"]
    assert lost["published"] == [0]
