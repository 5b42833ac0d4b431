"""The tests that `make test` leaves to `make test-long` and `make test-rare`.

Problem: a newcomer runs `make test`, within 12 minutes; all tests together take three quarters of
an hour on a quiet machine.
Answer: repetitions of shorter tests, and programs that start Spark several times, are left to
`make test-long`, which CI runs, too. Tests of Spark's own stores, of the bench's queries and more
repetitions are left to `make test-rare`, before a release.
Invariant: `make test` keeps every operator, every output mode, and every kind of fault; together
with `make test-long` every option, every failpoint and every rule.
"""

from __future__ import annotations

ALL = ("",)
LONG: dict[str, tuple[str, ...]] = {
    "tests/model/": ("test_much_state_that_is_not_in_memory",),
    # ---- spilled state: test_remote_tier.py and one test of each other file have the remote tier
    "tests/bench/test_prefetch.py": ("[q18]", "test_an_enrichment_is_counted"),
    "tests/engine/test_prefetch.py": (
        *("[remote]", "in_flight[direct]", "histories[direct]", "bounded[direct]"),
    ),
    "tests/engine/test_spill.py": (
        *("is_free[remote]", "its_bound[remote]", "or_deletes[remote]", "once[remote"),
    ),
    "tests/engine/test_cold.py": ("its_bound[remote]", "its_memory[remote]"),
    "tests/engine/test_remote_tier.py": ("test_a_process_that_ends_deletes_its_folder",),
    # ---- operators
    "tests/e2e/": ("restart_each",),
    "tests/e2e/test_aggregations.py": ("[decimals]",),
    "tests/e2e/test_checkpoints.py": ("test_state_of_a_join_side[3]", "join_by_name"),
    "tests/e2e/test_cold.py": (
        *("[sliding_update]", "[many_tumbling]", "[session_late]", "[within_long_watermark]"),
        *("[removes_itself]", "[session_lists]", "[right]", "[too_late]", "[none]"),
    ),
    "tests/e2e/test_composed_queries.py": (
        *("[left_join_format_4_then_window]", "[within_watermark_then_window]"),
    ),
    "tests/e2e/test_deduplication.py": ("[watermarked_jump]",),
    "tests/e2e/test_enrich.py": (
        *("[inner]", "test_a_supervised_query", "test_a_slow_server", "test_values_are_used_again"),
    ),
    "tests/e2e/test_eviction.py": (
        *("test_results_are_those_of_rocksdb", "[range_join_format_3]", "[window_join_format_3]"),
    ),
    "tests/e2e/test_execution.py": (
        *("[session_append]", "[keyed_complete-partial_then_whole_sink]"),
        "[join_checkpoint_ids_format_4]",
    ),
    "tests/e2e/test_group_state.py": ("[event_time_timeout_per_row]",),
    "tests/e2e/test_hints.py": (
        *("[sliding_update]", "[full_null_keys]", "[self_join]", "[full_range_format_3]"),
        *("used[groups]", "used[deduplication]"),
    ),
    "tests/e2e/test_holistic.py": (
        *("[checkpoint_ids]", "[session_late]", "[session_merged_before_the_exchange]"),
    ),
    "tests/e2e/test_joins.py": (
        *("format_3", "format_4", "[full_range_format_2]", "[full_null_keys]"),
        *("[full_max_watermark_policy]", "[right_residual_condition]"),
    ),
    "tests/e2e/test_leaving.py": ALL,
    "tests/e2e/test_snapshot_requests.py": (
        *("test_spark_does_not_miss_a_snapshot", "test_a_query_of_many_batches"),
    ),
    "tests/e2e/test_window_apply.py": ("test_sliding_windows_as_on_rocksdb",),
    "tests/e2e/test_windows.py": (*("[session_dynamic_gap]", "[holistic_update]"),),
    # ---- the bench; the operators of its queries are in tests/e2e, too
    "tests/bench/test_workloads.py": ("[ysb-redis]",),
    "tests/bench/test_events.py": (
        *("have_the_same_events[NexmarkOptions]", "have_the_same_events[YsbOptions]"),
        "have_the_same_events[LinearRoadOptions]",
    ),
    "tests/bench/test_report.py": ("test_settings_get_charts_of_what_they_cost",),
    "tests/bench/test_restore.py": ALL,
    "tests/bench/test_runner.py": ("test_a_join_runs_on_rocksdb_in_format_4_too",),
    "tests/bench/test_stopping.py": ("test_a_killed_commands_folder",),
    # ---- faults
    "tests/faults/test_hints_between_executors.py": ("test_hints_cross",),
    "tests/faults/test_kill_referee.py": ALL,
    "tests/faults/test_kills.py": (
        *("join/foreach/files", "dedup/foreach/cleaned", "session/file/python"),
        *("join/file/cleaned", "window/foreach/cleaned", "unique/foreach"),
        *("window/foreach/files/speculation", "test_point_that_is_never_passed_is_told"),
    ),
    "tests/faults/test_lost_executor.py": ALL,
    "tests/faults/test_rollback.py": (
        *(f"set_back_to[{batch}]" for batch in (3, 6)),
        *("right[join]", "right[windows_checkpoint_ids]"),
        *("test_set_back_twice", "test_a_batch_that_is_published_meanwhile_is_noticed"),
    ),
    "tests/faults/test_rules.py": ALL,
    "tests/faults/test_second_query.py": ("test_one_of_two_queries",),
}
RARE: dict[str, tuple[str, ...]] = {
    "tests/contract/": (
        *("[rocksdb-changelog", "[hdfs"),
        "[tailrace-snapshots",  # tailrace-cold has its snapshots, too
    ),
    "tests/model/": ("test_few_retained_versions", "test_frequent_snapshots"),
    # ---- other forms of queries that the other targets have
    "tests/e2e/": ("_live]",),
    "tests/e2e/test_aggregations.py": (
        *("[rollup]", "[sorted_top_five]", "[array_key]", "[struct_key]", "share_the_state[texts]"),
    ),
    "tests/e2e/test_cold.py": (
        *("rocksdb[session_late]", "[too_early]", "[too_late]", "[no_timeout_update]"),
        *("looked_up[sliding_update]", "file_system[session_lists]", "rocksdb[many_tumbling]"),
    ),
    "tests/e2e/test_composed_queries.py": (
        *("[window_then_window_late]", "[left_join_then_window]", "[sql_distinct]"),
        *("[inner_join_then_window]", "[windows_then_join]", "[sql_window_complete]"),
    ),
    "tests/e2e/test_deduplication.py": ("[forever_by_identifier_restart_each]",),
    "tests/e2e/test_eviction.py": tuple(
        f"of_rocksdb[{name}]"
        for name in (
            *("update", "plain_time", "within_watermark", "window_join_format_2"),
            *("window_join_format_3", "range_join_format_3", "append", "sliding", "deduplication"),
        )
    ),
    "tests/e2e/test_execution.py": (
        *("in_foreach_batch[full_join]", "[session_append-", "checkpoint_ids_restart_each]"),
    ),
    "tests/e2e/test_group_state.py": ("[no_timeout_append]",),
    "tests/e2e/test_joins.py": (
        *("[right_range_format_4]", "[full_range_format_3]", "[semi_range_format_3]"),
        *("[right_range_format_2]", "[semi_range_format_2]", "[left_window_format_2]"),
        *("[inner_range_format_4]", "[full_uneven]"),
        *("[left_null_keys]", "[inner_null_keys]", "[full_range_default_restart_each]"),
    ),
    "tests/e2e/test_holistic.py": (
        *("[many_no_key]", "[session_gaps]", "[expression_key]", "[session_jumps]"),
        "[many_tumbling]",
    ),
    "tests/e2e/test_windows.py": (
        *("[tumbling_without_key]", "[sliding_complete]", "[session_lists]"),
        *("[tumbling_empty_batches]", "[session_local_merge]"),
    ),
    "tests/faults/test_hints_between_executors.py": ("test_without_hints",),
    # minutes each
    "tests/bench/test_prefetch.py": (
        *("[q13-state]", "[q19]", "[q20]", "rocksdb_has_the_same_memory"),
    ),
    "tests/bench/test_compare.py": ("two_checkouts_that_are_the_same", "a_stopped_comparison"),
    "tests/bench/test_stopping.py": ("[interrupt_thrice]",),
    # make bench-check has them, too, with a million events
    "tests/bench/test_workloads.py": tuple(
        f"[{name}]"
        for name in (
            *("q5", "q5-append", "q7", "q8", "q11", "q12", "q13", "q18", "q19", "q20"),
            *("lr2", "lr4", "cm1", "cm2", "readwrite", "sessions", "window-append", "dedup-within"),
            *("q7-session", "q11-median", "ysb", "session-median"),
        )
    ),
    "tests/faults/test_rollback.py": (
        *(f"set_back_to[{batch}]" for batch in (0, 1, 4, 5)),
        "right[windows_sync]",
    ),
}


def target_of(test: str) -> str | None:
    """The name of the mark that leaves this test to another target than `make test`."""
    for mark, lists in (("rare", RARE), ("long", LONG)):
        for path, names in lists.items():
            if path in test and any(name in test for name in names):
                return mark
    return None
