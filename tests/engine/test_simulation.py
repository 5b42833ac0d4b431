"""Simulated histories of the commit protocol: 2,000 without a violation, and none of its rules is
there for nothing.

`make simulate` runs 100,000 of them; a failing seed is replayed alone by
`make simulate REPLAY=seed`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.seeds import SEED
from support.simulation import RULES, SimulationError, replay, simulate

TESTS = Path(__file__).resolve().parents[1]

HARMS = {
    1: {"published without state"},
    2: {"published without offsets", "output changed", "rows lost or doubled"},
    3: {"state lost"},
    4: {"source forgot"},
    5: {"pending batch read"},
    6: {"write given up"},
    7: {"lost with an executor"},
}
"""By rule, the harm that it prevents. Other violations that follow do not prove it."""


def test_no_history_breaks_a_rule() -> None:
    print(f"TAILRACE_SEED={SEED} replays this")
    assert simulate(SEED, 2000) == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_missed(rule: int) -> None:
    """Without it one of 1,000 histories comes to the harm that it prevents.

    A failure of the simulation is an error here, in any of the histories.
    """
    print(f"TAILRACE_SEED={SEED} replays this")
    found = simulate(SEED, 1000, rules_off=str(rule), most=1000)
    assert {violation.harm for violation in found} & HARMS[rule]


def test_without_the_gate_a_batch_is_shown_again_with_other_rows() -> None:
    """The harm that RFC 4 names is rarer than the entries that are published too early."""
    print(f"TAILRACE_SEED={SEED} replays this")
    for first in range(SEED, SEED + 10_000, 1000):
        found = simulate(first, 1000, rules_off="2", most=1000)
        if any(violation.harm == "output changed" for violation in found):
            return
    pytest.fail("no batch was shown again with other rows in 10,000 histories")


def test_a_seed_replays_its_history() -> None:
    (violation, *_) = simulate(SEED, 1000, rules_off="3", most=1)
    first, second = (replay(violation.seed, "3") for _ in range(2))
    assert first == second
    assert first.violation == violation
    assert len(first.events) > 5


def test_a_failure_of_the_simulation_is_no_violation() -> None:
    """Also beside violations, and also when the history is replayed."""
    with pytest.raises(SimulationError, match=r"itself failed, seed 3: .*NoSuchElement"):
        simulate(1, 5, rules_off="1", defective=3, most=5)
    with pytest.raises(SimulationError, match="itself failed, seed 3: "):
        replay(3, defective=3)


def test_make_simulate_tells_its_own_failure_apart() -> None:
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-m", "simulate", "--first", "1", "--seeds", "5", "--defective", "3"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "DEFECT OF THE SIMULATION" in ended.stderr
    assert "seed 3" in ended.stderr
    assert "violations" not in ended.stdout
