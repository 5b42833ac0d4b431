"""Queries that are killed at every point of the commit protocol show every row once.

Each chain is one checkpoint that several lives die on, at points and moments given here; what is
left must be what an undisturbed run leaves, in the sink and in the state. A point that no life
passes fails the test: a kill that did not happen shows nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.chaos import POINTS, Chain, ChaosError, Failpoint, Kill, Setting, random_moment
from support.chaos_input import KINDS
from support.chaos_query import SINKS, SOURCES
from support.chaos_referee import Referee
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
        Failpoint("sink.after"),
        Failpoint("publish.after"),
    ),
)
JOIN: Plan = (
    Setting("join", "foreach"),
    (
        Failpoint("local.after", 2),
        Failpoint("acknowledge.before"),
        Failpoint("sink.after"),
        Failpoint("offset.before"),
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
PLANS = (WINDOW, JOIN, DEDUPLICATION, SESSION, MEDIANS)


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


def test_point_that_is_never_passed_is_told(referee: Referee, tmp_path: Path) -> None:
    """The life that waits for it in vain is the one that uses up the input: there is a result."""
    setting, kills = WINDOW
    print(f"TAILRACE_SEED={SEED} replays this")
    chain = Chain(tmp_path, setting, SEED, [*kills, Failpoint("no.such.point")])
    with pytest.raises(ChaosError, match=r"no life came to no\.such\.point@1"):
        chain.run()
    assert chain.killed == list(kills)
    referee.judge(chain)


def test_every_point_kind_sink_and_source_is_among_them() -> None:
    kills = [kill for _, kills in PLANS for kill in kills]
    assert {kill.name for kill in kills if isinstance(kill, Failpoint)} == set(POINTS)
    assert len(kills) >= 15
    settings = [setting for setting, _ in PLANS]
    assert {setting.kind for setting in settings} == set(KINDS) - {"unique"}
    assert {setting.sink for setting in settings} == set(SINKS)
    assert {setting.source for setting in settings} == set(SOURCES)
