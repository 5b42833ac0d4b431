"""Simulated histories of the commit protocol: 2,000 without a violation, and none of its rules is
there for nothing.

`make simulate` runs 100,000 of them; a failing seed is replayed alone by
`make simulate REPLAY=seed`.
"""

from __future__ import annotations

import pytest
from support.seeds import SEED
from support.simulation import RULES, replay, simulate


def test_no_history_breaks_a_rule() -> None:
    print(f"TAILRACE_SEED={SEED} replays this")
    assert simulate(SEED, 2000) == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_missed(rule: int) -> None:
    """Without it one of 1,000 histories goes wrong."""
    print(f"TAILRACE_SEED={SEED} replays this")
    assert simulate(SEED, 1000, rules_off=str(rule), most=1)


def test_a_seed_replays_its_history() -> None:
    (violation, *_) = simulate(SEED, 1000, rules_off="3", most=1)
    first, second = (replay(violation.seed, "3") for _ in range(2))
    assert first == second
    assert first[-1] == f"violation: {violation.text}"
    assert len(first) > 5
