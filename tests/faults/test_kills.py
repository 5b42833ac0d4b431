"""Queries that are killed at every point of the commit protocol show every row once.

Each chain is one checkpoint that several lives die on, at points and moments given here; sink and
state must then be those of an undisturbed run. A point that no life
passes fails the test: a kill that did not happen shows nothing.
"""

from __future__ import annotations

import random
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.chaos import (
    COLD,
    COLD_POINTS,
    POINTS,
    Chain,
    ChaosError,
    Failpoint,
    Kill,
    Moment,
    Setting,
    random_moment,
)
from support.chaos_input import KINDS
from support.chaos_query import SINKS, SOURCES
from support.chaos_referee import Referee
from support.compilation import REPOSITORY
from support.seeds import SEED

# State is written late, so that a kill finds batches whose input may be forgotten too early.
LATE = {"upload.before": 300}
Plan = tuple[Setting, Sequence[Kill]]
WINDOW: Plan = (
    Setting("window", "file", local_copies=True),
    (
        Failpoint("local.before", 2),
        Failpoint("upload.after"),
        Failpoint("sink.before"),
        Failpoint("source.after"),
        Failpoint("commit.prepare.before"),
        Failpoint("publish.after"),
    ),
)
# Before the query has ever published a batch.
FIRST: Plan = (
    Setting("join", "file"),
    (
        Failpoint("offset.prepare.after"),
        Failpoint("register.after"),
        Failpoint("register.before", 3),
    ),
)
SPECULATION: Plan = (
    Setting("window", "foreach", partitions=4, speculates=True, delays=LATE),
    (Moment(3, 0.4), Moment(4, 0.1)),
)
JOIN: Plan = (
    Setting("join", "foreach"),
    (
        Failpoint("source.before"),
        Failpoint("commit.prepare.after"),
        Failpoint("local.after", 2),
        Failpoint("acknowledge.before"),
        Failpoint("sink.after"),
        Failpoint("offset.prepare.before", 2),
        Failpoint("offset.before"),
        Failpoint("ledger.after"),
    ),
)
DEDUPLICATION: Plan = (
    Setting("dedup", "foreach", "cleaned", delays=LATE),
    (
        Failpoint("publish.before", 2),
        Failpoint("acknowledge.after"),
        Failpoint("offset.after", 2),
        Failpoint("upload.before"),
        Failpoint("ledger.before"),
    ),
)
# One kill: a life of it starts a dozen Python processes and costs twice as much as another.
SESSION: Plan = (Setting("session", "file", "python", delays=LATE), (Failpoint("ledger.after", 2),))
MEDIANS: Plan = (
    Setting("medians", "foreach", options={"max_deltas": "2"}),
    (random_moment(random.Random(SEED)),),
)
# While records are being written to files, read before they are looked up, or moved.
COLD_JOIN: Plan = (
    Setting("join", "file", "cleaned", options=COLD),
    (Failpoint("io.read", 2), Failpoint("io.spill", 5), Failpoint("io.read", 6)),
)
COLD_WINDOW: Plan = (
    Setting("window", "foreach", "cleaned", options=COLD),
    (Failpoint("io.clean", 2), Failpoint("io.read"), Failpoint("io.spill", 2)),
)
# While a restart reads the index of a snapshot, and while look-ups read its blocks.
LAZY: Plan = (
    Setting("unique", "foreach", options={"max_deltas": "2", "restart": "always"}),
    (
        Failpoint("sink.after", 4),
        Failpoint("block.after", 2),
        Failpoint("block.before", 8),
        Failpoint("block.after", 12),
    ),
)
PLANS = (
    *(WINDOW, FIRST, JOIN, DEDUPLICATION, SESSION, MEDIANS),
    *(COLD_JOIN, COLD_WINDOW, LAZY, SPECULATION),
)
# The tests that run the plans.
EACH = "test_nothing_is_lost_and_nothing_doubled"
ONE = "test_point_that_is_never_passed_is_told"


@pytest.fixture(scope="session")
def referee(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Referee:
    return Referee(spark, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("plan", PLANS[1:], ids=lambda plan: str(plan[0]))
def test_nothing_is_lost_and_nothing_doubled(referee: Referee, tmp_path: Path, plan: Plan) -> None:
    setting, kills = plan
    print(f"TAILRACE_SEED={SEED} replays this")
    chain = Chain(tmp_path, setting, SEED, kills)
    chain.run()
    referee.judge(chain)
    if setting.speculates:
        assert chain.speculated > 0, "Spark ran no task twice at a time: nothing is shown"


def test_point_that_is_never_passed_is_told(referee: Referee, tmp_path: Path) -> None:
    """The life that waits for it in vain is the one that uses up the input: there is a result."""
    setting, kills = WINDOW
    print(f"TAILRACE_SEED={SEED} replays this")
    chain = Chain(tmp_path, setting, SEED, [*kills, Failpoint("no.such.point")])
    with pytest.raises(ChaosError, match=r"no life came to no\.such\.point@1"):
        chain.run()
    assert chain.killed == list(kills)
    referee.judge(chain)


def plans_of(target: str) -> list[Plan]:
    """Those whose tests a target of the Makefile runs, as pytest itself collects them."""
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    (command,) = re.findall(rf"^{target}:.*\n\t\$\(BIN\)/python (-m pytest .*)$", makefile, re.M)
    collected = subprocess.run(
        [sys.executable, *shlex.split(command), "--collect-only", "-q", __file__],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    tests = [line.partition("::")[2] for line in collected.splitlines() if "::" in line]
    return [plan for plan in PLANS if (ONE if plan is WINDOW else f"{EACH}[{plan[0]}]") in tests]


def points(plans: Sequence[Plan]) -> set[str]:
    return {kill.name for _, kills in plans for kill in kills if isinstance(kill, Failpoint)}


def test_every_point_kind_sink_and_source_is_among_them() -> None:
    """Of the plans that run: kills at points and moments in `make test`, at all points in both."""
    short, long = plans_of("test"), plans_of("test-long")
    assert SPECULATION in long
    assert len(points(short)) >= 3
    assert any(isinstance(kill, Moment) for _, kills in short for kill in kills)
    assert {setting.sink for setting, _ in short} == set(SINKS)
    every = [*short, *long]
    once = sorted(map(PLANS.index, every))
    assert once == list(range(len(PLANS))), "each plan runs once"
    assert points(every) == {*POINTS, *COLD_POINTS, "block.before", "block.after"}
    assert {setting.kind for setting, _ in every} == set(KINDS)
    assert {setting.source for setting, _ in every} == set(SOURCES)
