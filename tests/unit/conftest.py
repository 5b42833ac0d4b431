from __future__ import annotations

import pytest
from support.supervision import World


@pytest.fixture
def world() -> World:
    return World()
