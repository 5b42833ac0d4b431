"""The rules of the commit protocol (docs/rfcs/0004), each with the damage where it is missing.

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

# The damage without the rule: the words of each problem. Where it depends on how far Spark had
# come, there are several such lists, and one of them must be seen, whole and with nothing more.
Words = tuple[str, ...]
PACK_IS_MISSING: list[Words] = [("/state/tailrace/3-*.pack.tr is missing",)]
DAMAGE: dict[int, list[list[Words]]] = {
    1: [PACK_IS_MISSING],
    2: [[("batch 3 was shown again, changed",)]],
    3: [PACK_IS_MISSING],
    # The source has deleted the file of batch 2 ("oak fir"), which has to run again: Spark counts
    # without its rows or, if it has to open the file, says that it is missing.
    4: [
        [
            ("batch 2 was shown again, changed",),
            ("counted {", "'oak': 1", "'fir': 1", "instead of {'oak': 2, 'elm': 4, 'fir': 2}"),
        ],
        [("the query failed", "0002.json", "not exist")],
    ],
    5: [[("read {",), ("a batch ran again though no process had crashed",)]],
    6: [[("state/tailrace/1-",), ("/commits/.0.",)]],
}


def shows(problems: list[str], expected: list[Words]) -> bool:
    return len(problems) == len(expected) and all(
        all(word in problem for word in words)
        for problem, words in zip(problems, expected, strict=True)
    )


@pytest.mark.parametrize("rule", SCENARIOS)
def test_with_the_rule(faults: FileFaults, tmp_path: Path, rule: int) -> None:
    assert SCENARIOS[rule](faults, tmp_path) == []


@pytest.mark.parametrize("rule", SCENARIOS)
def test_without_the_rule(tmp_path: Path, rule: int) -> None:
    off = {"TAILRACE_RULES_OFF": str(rule)}
    with Program("support.rule_scenarios", rule, tmp_path, environment=off) as program:
        problems = program.expect("saw")["problems"]
    assert any(shows(problems, expected) for expected in DAMAGE[rule]), problems
