"""Tests that inject faults and see them caught."""

from __future__ import annotations

import pytest
from support.harness import HarnessJar
from support.queries import QueryHarness
from support.stores import TAILRACE, StoreKind


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE


@pytest.fixture(scope="session")
def queries(harness_classes: HarnessJar) -> QueryHarness:
    return QueryHarness(harness_classes)
