"""Reading and continuing a checkpoint.

Problem: a checkpoint outlives the session that wrote it: Spark's state data source opens its stores
outside any query, and a session set to one store may be given the checkpoint of another.
Answer: the same query's checkpoint on RocksDB and on the candidate, read by the data source at its
last and at an earlier batch; and restarts under the other store's name. Spark records the provider
class in the offset log (OffsetSeqMetadata) and restores it over the session's setting, so a
checkpoint stays with the store that wrote it.
Invariant: both checkpoints show the same rows of state in the same partitions; a restart under
another provider setting goes on with the recorded store and right results.
"""

import pytest

from .data import advertisements, events
from .harness import (
    CANDIDATE,
    JOIN_FORMAT_CONF,
    ROCKSDB,
    Case,
    assert_equals_batch_computation,
    assert_ran_on,
    canonical_rows,
    difference,
    new_session,
    recorded_conf,
    run,
    run_on_both,
    skip_if_unsupported,
)
from .test_aggregations import many_functions
from .test_joins import in_time_range
from .test_windows import session, windowed

AGGREGATION = Case(
    "aggregation",
    "update",
    many_functions,
    {"events": events(offset=70)},
    reference="update",
    reference_key=("key",),
)
SESSIONS = Case("sessions", "append", windowed(session, "key"), {"events": events(offset=71)})
# Format 4 is left out: Spark's own reader puts the event time into the key's schema twice, and on
# RocksDB shows bytes of the key in its place.
JOINS = {
    version: Case(
        f"join_format_{version}",
        "append",
        in_time_range("left_outer"),
        advertisements(offset=70, flush=False),
        conf={JOIN_FORMAT_CONF: version},
        needs_column_families=version == "3",
    )
    for version in ("2", "3")
}


def state_rows(spark, outcome, **options):
    """The rows of a checkpoint's state, each with its partition."""
    reader = new_session(spark, outcome.provider, {}).read.format("statestore")
    return canonical_rows(reader.options(**options).load(outcome.checkpoint.as_uri()).collect())


def assert_same_state(spark, outcomes, **options):
    expected, actual = (state_rows(spark, outcome, **options) for outcome in outcomes)
    assert sum(expected.values()) > 0, "an empty state compares nothing"
    assert actual == expected, f"{options}: {difference(expected, actual)}"


@pytest.mark.parametrize("case", [AGGREGATION, SESSIONS], ids=lambda case: case.name)
def test_state_of_an_aggregation(spark, case, tmp_path):
    outcomes = run_on_both(spark, case, tmp_path)
    assert_same_state(spark, outcomes)
    last_batch = max(outcomes[0].batches)
    for batch_id in range(last_batch):
        assert_same_state(spark, outcomes, batchId=batch_id)


@pytest.mark.parametrize("version", JOINS)
def test_state_of_a_join_side(spark, version, tmp_path):
    skip_if_unsupported(JOINS[version])
    outcomes = run_on_both(spark, JOINS[version], tmp_path)
    for side in ("left", "right"):
        assert_same_state(spark, outcomes, joinSide=side)
        assert_same_state(spark, outcomes, joinSide=side, batchId=1)


def test_spark_turns_a_new_join_to_format_2_unless_on_rocksdb(spark, tmp_path):
    """Why `pin_recorded_conf` exists. When this fails, Spark has come to accept other stores."""
    case = Case(
        "new_join_format_4",
        "append",
        in_time_range("left_outer"),
        advertisements(offset=70, nulls=0.0),
        conf={JOIN_FORMAT_CONF: "4"},
        reference="append",
    )
    on_rocksdb = run(spark, case, ROCKSDB, tmp_path / "rocksdb")
    on_candidate = run(spark, case, CANDIDATE, tmp_path / "candidate")
    assert recorded_conf(on_rocksdb.checkpoint)[JOIN_FORMAT_CONF] == "4"
    assert recorded_conf(on_candidate.checkpoint)[JOIN_FORMAT_CONF] == "2"
    assert on_candidate.batches == on_rocksdb.batches
    assert_equals_batch_computation(spark, case, on_candidate)


def test_state_store_of_a_join_by_name(spark, tmp_path):
    outcomes = run_on_both(spark, JOINS["2"], tmp_path)
    for name in ("left-keyToNumValues", "right-keyWithIndexToValue"):
        assert_same_state(spark, outcomes, storeName=name)


def test_state_metadata_names_the_operator(spark, tmp_path):
    outcomes = run_on_both(spark, JOINS["2"], tmp_path)
    tables = [
        canonical_rows(
            new_session(spark, outcome.provider, {})
            .read.format("state-metadata")
            .load(outcome.checkpoint.as_uri())
            .collect()
        )
        for outcome in outcomes
    ]
    assert tables[0] == tables[1]
    assert sum(tables[0].values()) == 4, "a join of format 2 has four stores"


@pytest.mark.parametrize(
    ("written_by", "restarted_as"),
    [(ROCKSDB, CANDIDATE), (CANDIDATE, ROCKSDB)],
    ids=["rocksdb_checkpoint", "candidate_checkpoint"],
)
def test_restart_under_another_store_keeps_the_recorded_one(
    spark, written_by, restarted_as, tmp_path
):
    def session_for_segment(segment):
        return new_session(spark, written_by if segment == 0 else restarted_as, {})

    outcome = run(spark, AGGREGATION, written_by, tmp_path, session_for_segment=session_for_segment)
    assert_ran_on(outcome, written_by)
    assert_equals_batch_computation(spark, AGGREGATION, outcome)
