"""How a query is run: plans that run twice, queries side by side, checkpoint ids, partitions.

Problem: a batch's plan may run more than once (each action inside foreachBatch runs it), several
queries share executors, and a restarted query may find other settings than before.
Answer: sinks with several actions, three queries of one session at the same time, both checkpoint
formats, and a restart under another number of shuffle partitions.
Invariant: a batch's output does not depend on how often its plan ran, on its neighbours, or on
settings that Spark pins in the checkpoint.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from .data import events
from .harness import (
    CANDIDATE,
    CHECKPOINT_FORMAT_CONF,
    JOIN_FORMAT_CONF,
    SHUFFLE_CONF,
    Case,
    assert_equals_batch_computation,
    assert_ran_on,
    assert_same_output,
    canonical_rows,
    check,
    new_session,
    parametrize,
    run,
    run_on_both,
)
from .test_aggregations import counted, keyed_complete, keyed_update
from .test_deduplication import forever, watermarked
from .test_joins import ORDERLY, in_time_range
from .test_windows import session_append, tumbling_append

CHECKPOINT_IDS = {CHECKPOINT_FORMAT_CONF: "2"}

CHECKPOINT_FORMAT_CASES = [
    replace(
        keyed_update,
        name="aggregation_checkpoint_ids",
        conf=CHECKPOINT_IDS,
        needs_checkpoint_ids=True,
    ),
    replace(
        tumbling_append,
        name="window_checkpoint_ids",
        conf=CHECKPOINT_IDS,
        needs_checkpoint_ids=True,
    ).restarted_after_each_step(),
] + [
    Case(
        f"join_checkpoint_ids_format_{version}",
        "append",
        in_time_range("full_outer"),
        ORDERLY,
        conf=CHECKPOINT_IDS | {JOIN_FORMAT_CONF: version},
        needs_checkpoint_ids=True,
        needs_column_families=version != "2",
        reference="append",
    )
    for version in ("2", "4")
]

# A deduplication whose second run must let the rows through that its first run has marked as seen.
RUN_TWICE_CASES = [
    keyed_update,
    tumbling_append,
    session_append,
    forever,
    Case("full_join", "append", in_time_range("full_outer"), ORDERLY, reference="append"),
]


def twice_sink(outcome):
    """Two actions over one batch: the plan, with all its state, runs twice."""

    def collect_twice(batch, batch_id):
        outcome.columns[:] = batch.columns
        first = canonical_rows(batch.collect())
        second = canonical_rows(batch.collect())
        assert first == second, f"batch {batch_id}: the second action saw other rows"
        outcome.batches[batch_id] = first

    return collect_twice


def partial_then_whole_sink(outcome):
    """An action that reads the first rows only, then all of them."""

    def collect(batch, batch_id):
        outcome.columns[:] = batch.columns
        some = canonical_rows(batch.take(1))
        rows = canonical_rows(batch.collect())
        assert not some - rows, f"batch {batch_id}: the partial action saw other rows"
        outcome.batches[batch_id] = rows

    return collect


def cached_sink(outcome):
    """Several actions over a cached batch: the plan runs once, and is asked again from memory."""

    def collect(batch, batch_id):
        outcome.columns[:] = batch.columns
        kept = batch.persist()
        try:
            rows = kept.count()
            outcome.batches[batch_id] = canonical_rows(kept.collect())
            assert rows == sum(outcome.batches[batch_id].values())
        finally:
            kept.unpersist()

    return collect


@parametrize(CHECKPOINT_FORMAT_CASES)
def test_checkpoint_format_2(spark, case, tmp_path):
    check(spark, case, tmp_path)


@parametrize(RUN_TWICE_CASES)
def test_two_actions_in_foreach_batch(spark, case, tmp_path):
    expected, actual = run_on_both(spark, case, tmp_path, sink_for=twice_sink)
    assert_same_output(case, expected, actual)
    assert_equals_batch_computation(spark, case, actual)


@pytest.mark.parametrize("sink_for", [partial_then_whole_sink, cached_sink])
@parametrize([keyed_complete, session_append])
def test_other_actions_in_foreach_batch(spark, case, sink_for, tmp_path):
    expected, actual = run_on_both(spark, case, tmp_path, sink_for=sink_for)
    assert_same_output(case, expected, actual)
    assert_equals_batch_computation(spark, case, actual)


def test_queries_side_by_side(spark, tmp_path):
    """Three queries of the candidate at once show the rows that each shows alone on RocksDB."""
    cases = [keyed_update, tumbling_append, watermarked]
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(run, spark, case, CANDIDATE, tmp_path / case.name) for case in cases]
        together = [future.result() for future in futures]
    for case, actual in zip(cases, together, strict=True):
        assert_ran_on(actual, CANDIDATE)
        assert sum(actual.rows().values()) > 0
        assert_equals_batch_computation(spark, case, actual)


def test_batches_do_not_depend_on_the_restart(spark, tmp_path):
    """With no batch between two steps, the same batches run however often the query restarts."""
    plain = replace(keyed_update, restart_after=())
    runs = [
        run(spark, case, CANDIDATE, tmp_path / str(index))
        for index, case in enumerate([plain, keyed_update.restarted_after_each_step()])
    ]
    assert runs[0].batches == runs[1].batches
    assert runs[0].row_counts() == runs[1].row_counts()


def test_shuffle_partitions_stay_what_they_were(spark, tmp_path):
    """Spark keeps the number of state partitions of the checkpoint, whatever the session says."""
    case = Case(
        "partitions",
        "update",
        counted(["key"]),
        {"events": events(offset=60)},
        reference="update",
        reference_key=("key",),
    )

    def session_for_segment(segment):
        return new_session(spark, CANDIDATE, {SHUFFLE_CONF: "2" if segment == 0 else "5"})

    actual = run(spark, case, CANDIDATE, tmp_path, session_for_segment=session_for_segment)
    assert_ran_on(actual, CANDIDATE)
    partitions = Counter(
        operator["numShufflePartitions"]
        for report in actual.progress
        for operator in report["stateOperators"]
    )
    assert set(partitions) == {2}, f"state partitions by batch: {partitions}"
    assert_equals_batch_computation(spark, case, actual)
