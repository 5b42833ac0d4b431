"""Every workload against its reference, at a size of your choice: `tailrace bench check`.

Problem: the test suite compares with the references at a size that fits a test suite.
Answer: the same comparison with as many events as asked for, a million by default, on
RocksDB and on tailrace; one line per workload and store as it goes.
Invariant: ends with an error if a single row differs, and says which.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tailrace.bench.stores import Store
from tailrace.bench.workloads import Workload
from tailrace.bench.workloads.check import check, expected

EVENTS = 1_000_000
BATCHES = 10
# Each report of LR2 is in 30 windows, which are joined with the stream: a million take hours.
FEWER = {"lr2": 25}


def run(
    workloads: Sequence[Workload], stores: Sequence[Store], events: int, cores: int, memory: str
) -> int:
    """Checks them all; gives the number of comparisons that failed."""
    from tailrace.cli._local import local_session

    failed = 0
    # Rows that close the last windows come in batches without data of their own.
    settings = {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}
    with local_session("tailrace bench check", cores, memory, settings) as session:
        for workload in workloads:
            count = events // FEWER.get(workload.name, 1) // BATCHES * BATCHES
            options = workload.configured(count // BATCHES)
            started = time.monotonic()
            reference = expected(session.spark, workload, count, options, workload.query)
            print(
                f"{workload.name:14} {count:>9,} events, reference: {reference.total():,} rows "
                f"in {time.monotonic() - started:.0f} s",
                flush=True,
            )
            for store in stores:
                started = time.monotonic()
                checked = check(
                    session.spark, workload, store.confs, count, options, workload.query,
                    BATCHES, reference,
                )  # fmt: skip
                failed += not checked.equal
                verdict = "equal" if checked.equal else f"DIFFERENT: {checked}"
                print(
                    f"{'':14} {store.title:20} {verdict}, {time.monotonic() - started:.0f} s",
                    flush=True,
                )
    return failed
