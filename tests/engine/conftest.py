"""Tests of the engine's own promises, beyond what every state store must do."""

from __future__ import annotations

import pytest
from support.stores import TAILRACE, StoreKind


@pytest.fixture
def kind() -> StoreKind:
    return TAILRACE
