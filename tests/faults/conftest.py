"""Tests that break something on purpose and see it caught."""

from __future__ import annotations

import pytest
from support.stores import TAILRACE, StoreKind


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE
