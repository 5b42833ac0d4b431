"""Tests of the engine's own promises, beyond the contract of every state store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.harness import HarnessJar
from support.ledger import LedgerHarness, LedgerWorld
from support.queries import QueryHarness
from support.stores import TAILRACE, StoreKind


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE


@pytest.fixture(scope="session")
def ledger_harness(harness_classes: HarnessJar) -> LedgerHarness:
    return LedgerHarness(harness_classes)


@pytest.fixture
def ledger(ledger_harness: LedgerHarness) -> Iterator[LedgerWorld]:
    """A ledger to which one run of a query on a new checkpoint was announced."""
    world = LedgerWorld(ledger_harness)
    world.begin("run")
    yield world
    world.close()


@pytest.fixture(scope="session")
def queries(harness_classes: HarnessJar) -> QueryHarness:
    return QueryHarness(harness_classes)
