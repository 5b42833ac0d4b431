"""Options of the process, of which its sessions ask for different values.

Problem: a session that opens a store must not change the settings promised to another session.
Answer: stores of the real provider, with the options in their settings; the value in force is read
from the runtime.
Invariant: the first value that was asked for counts until no store is open that asked for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.counting import OPTION
from support.fixtures import Opener

IN_FORCE = {
    "memoryLimit": lambda runtime: runtime.budget().limit(),
    "ioThreads": lambda runtime: runtime.io().permits(),
    "ioBandwidth": lambda runtime: runtime.io().bytesPerSecond(),
}
VALUES = {"memoryLimit": ("1g", "2g"), "ioThreads": ("3", "5"), "ioBandwidth": ("10m", "20m")}
SIZES = {"1g": 1 << 30, "2g": 2 << 30, "3": 3, "5": 5, "10m": 10 << 20, "20m": 20 << 20}


@pytest.mark.parametrize("option", IN_FORCE)
def test_the_first_that_asks_decides_while_its_stores_are_open(
    spark: SparkSession, open_provider: Opener, option: str
) -> None:
    def value() -> Any:
        return IN_FORCE[option](spark._jvm.tailrace.spark.EngineRuntime.current())

    default = value()
    first, other = VALUES[option]
    stores = [
        open_provider(partition=partition, confs={OPTION + option: asked} if asked else {})
        for partition, asked in enumerate((first, other, first, None))
    ]
    assert value() == SIZES[first]
    stores[0].close()
    assert value() == SIZES[first]
    stores[2].close()
    assert value() == SIZES[other]
    stores[1].close()
    assert value() == default


def test_a_store_that_could_not_be_opened_asks_for_nothing(
    spark: SparkSession, open_provider: Opener
) -> None:
    runtime = spark._jvm.tailrace.spark.EngineRuntime.current()
    default = runtime.budget().limit()
    with pytest.raises(Exception, match="UnusableColdDir"):
        open_provider(
            confs={OPTION + "memoryLimit": "1g", OPTION + "coldDir": "nosuchsystem://host/folder"}
        )
    assert runtime.budget().limit() == default
