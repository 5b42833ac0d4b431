"""The rules of the commit protocol (docs/rfcs/0004), each with what happens where it is missing.

Problem: a protocol is only as good as the rules that are in force, and a test that passes with a
rule says nothing about the rule unless it fails without it.
Answer: support/rule_scenarios.py, a scenario per rule, run with the rule and without it.
Invariant: without the rule the scenario shows exactly the damage that the rule is there to prevent.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.faults import FileFaults
from support.processes import Program
from support.rule_scenarios import SCENARIOS

# What is seen without the rule, each in a problem of its own.
DAMAGE = {
    1: ["/state/tailrace/3-*.pack.tr is missing"],
    2: ["batch 3 was shown again, changed"],
    3: ["/state/tailrace/3-*.pack.tr is missing"],
    # The source's file is gone: Spark says so, or, if it had not looked yet, its rows are missing.
    4: [],
    5: ["read {", "a batch ran again though nobody had crashed"],
    6: ["state/tailrace/1-", "/commits/.0."],
}


@pytest.mark.parametrize("rule", SCENARIOS)
def test_with_the_rule(faults: FileFaults, tmp_path: Path, rule: int) -> None:
    assert SCENARIOS[rule](faults, tmp_path) == []


@pytest.mark.parametrize("rule", SCENARIOS)
def test_without_the_rule(tmp_path: Path, rule: int) -> None:
    off = {"TAILRACE_RULES_OFF": str(rule)}
    with Program("support.rule_scenarios", rule, tmp_path, environment=off) as program:
        problems = program.hear("saw")["problems"]
    assert problems, "the rule is off, and nothing went wrong"
    if not DAMAGE[rule]:
        return
    assert len(problems) == len(DAMAGE[rule]), problems
    for expected, problem in zip(DAMAGE[rule], problems, strict=True):
        assert expected in problem
