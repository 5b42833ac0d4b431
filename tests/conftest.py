"""What the tests share: one Spark session on tailrace for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.faults import faults
from support.fixtures import harness, harness_classes, open_provider

import tailrace

# Session-wide: two harnesses in one JVM would be two classes of one name.
__all__ = ["faults", "harness", "harness_classes", "open_provider"]


# `make test` leaves these to `make test-long`: repetitions of what shorter tests show, and programs
# that start Spark several times.
LONG = (
    ("tests/contract/", "[rocksdb-changelog"),
    ("tests/contract/", "[tailrace-snapshots"),  # tailrace-cold has its snapshots, too
    ("tests/e2e/", "restart_each"),
    ("tests/e2e/test_cold.py", "[sliding_update]"),
    ("tests/e2e/test_cold.py", "[many_tumbling]"),
    ("tests/e2e/test_cold.py", "[session_late]"),
    ("tests/e2e/test_cold.py", "[within_long_watermark]"),
    ("tests/e2e/test_cold.py", "[no_timeout_update]"),
    ("tests/e2e/test_cold.py", "[session_lists]"),
    ("tests/e2e/test_cold.py", "[right]"),
    ("tests/e2e/test_cold.py", "[too_early]"),
    ("tests/e2e/test_cold.py", "[none]"),
    ("tests/e2e/test_eviction.py", "test_results_are_those_of_rocksdb"),
    ("tests/e2e/test_execution.py", "[full_join]"),
    ("tests/e2e/test_holistic.py", "[many_no_key]"),
    ("tests/e2e/test_holistic.py", "[checkpoint_ids]"),
    ("tests/e2e/test_holistic.py", "[session_jumps]"),
    ("tests/e2e/test_holistic.py", "[session_gaps]"),
    ("tests/e2e/test_holistic.py", "[session_merged_before_the_exchange]"),
    ("tests/e2e/test_joins.py", "format_3"),
    ("tests/e2e/test_joins.py", "format_4"),
    ("tests/e2e/test_leaving.py", ""),
    ("tests/faults/test_rules.py", ""),
    ("tests/faults/test_lost_executor.py", "without_the_rule"),
    ("tests/faults/test_kill_referee.py", ""),
    ("tests/faults/test_kills.py", "session/file/python"),
    ("tests/model/", "test_few_retained_versions"),
    ("tests/model/", "test_much_state_that_is_not_in_memory"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(path in item.nodeid and name in item.nodeid for path, name in LONG):
            item.add_marker("long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: left to make test-long")
    config.addinivalue_line("markers", "needs(*capabilities): what a store must be able to do")
    config.addinivalue_line("markers", "lacks(capability): runs on the stores that cannot do it")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two task slots, configured by tailrace and nothing else."""
    directory = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("tailrace tests")
    session = (
        tailrace.configure(builder)
        .config("spark.driver.memory", "2g")
        # Thousands of small queries: code that runs a few times is not worth the second compiler.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    yield session
    session.stop()
