"""Runs every contract test on every store that has the capabilities the test names.

`kind` is parametrized here, not in the tests: a test that needs a capability writes
`@needs(Capability.X)` and is generated only for the stores that have it.
"""

from __future__ import annotations

import pytest
from support.stores import ALL_STORES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" not in metafunc.fixturenames:
        return
    needed = [item for mark in metafunc.definition.iter_markers("needs") for item in mark.args]
    lacked = [item for mark in metafunc.definition.iter_markers("lacks") for item in mark.args]
    kinds = [
        store
        for store in ALL_STORES
        if store.can(*needed) and not any(store.can(item) for item in lacked)
    ]
    metafunc.parametrize("kind", kinds, ids=[store.name for store in kinds])
