"""Rule 7 with executors that are processes of their own: one is killed while its state is on its way.

Problem: in local mode driver and executor die together, so nothing shows what the driver makes of an
executor that alone is gone.
Answer: a cluster of two executors on this machine (support/losing.py).
Invariant: the query fails and says why; the next start goes on from the last published batch, and
every row is counted once. Without the rule the query waits for ever.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support.processes import Program

EXPECTED = Counter("oak elm fir ash yew oak elm fir pine box oak holly".split())


def test_the_query_fails_clearly_and_starts_again(tmp_path: Path) -> None:
    with Program("support.losing", tmp_path) as program:
        lost = program.hear("lost")
        restarted = program.hear("restarted")
    assert lost["packs"] == 2, "one pack for each executor, whatever the number of partitions"
    assert lost["before"] == [0]
    assert lost["failed"]
    assert "was lost with state of batch 1 that was not durable yet" in lost["error"]
    assert lost["published"] == [0]
    assert restarted["totals"] == EXPECTED
    assert restarted["conflicts"] == []


def test_without_the_rule_nobody_notices(tmp_path: Path) -> None:
    off = {"TAILRACE_RULES_OFF": "7"}
    with Program("support.losing", tmp_path, environment=off) as program:
        lost = program.hear("lost")
    assert not lost["failed"]
    assert lost["published"] == [0]
