"""Shared by all tests: one Spark session on tailrace for the whole run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.compilation import harness_jar
from support.faults import TESTING, faults
from support.fixtures import harness, harness_classes, open_provider
from support.long_tests import target_of
from support.processes import FAULTS_PLUGIN

import tailrace
from tailrace.bench.redis_server import RedisServer, find_server

# Session-wide: two harnesses in one JVM would be two classes of one name.
__all__ = ["faults", "harness", "harness_classes", "open_provider"]


# They start processes one after the other: begun last, the others would wait for them.
FIRST = ("tests/faults/test_kills.py", "tests/bench/test_stopping.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := target_of(item.nodeid):
            item.add_marker(mark)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long: left to make test-long")
    config.addinivalue_line("markers", "rare: left to make test-rare")
    config.addinivalue_line("markers", "needs(*capabilities): what a store must be able to do")
    config.addinivalue_line("markers", "lacks(capability): runs on the stores that cannot do it")


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis server of the test's own, empty."""
    if find_server() is None:
        pytest.skip("there is no redis-server here")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two task slots. The tests' plugin overwrites memory that is freed."""
    directory = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("tailrace tests")
    session = (
        tailrace.configure(
            builder.config("spark.jars", str(harness_jar())).config("spark.plugins", FAULTS_PLUGIN)
        )
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
    # Files without a process for each of them (tests/jvm/PlainLocalFileSystem.scala).
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.file.impl", TESTING + "PlainLocalFileSystem")
    hadoop.set("fs.file.impl.disable.cache", "true")
    hadoop.set("fs.AbstractFileSystem.file.impl", TESTING + "PlainLocalFs")
    yield session
    session.stop()
