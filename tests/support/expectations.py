"""Assertions about stores, in a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from support.harness import Pair, Provider, Row, Store, StoreError
from support.stores import Capability

needs: Callable[..., pytest.MarkDecorator] = pytest.mark.needs
lacks: Callable[..., pytest.MarkDecorator] = pytest.mark.lacks

__all__ = ["Capability", "commit_all", "contents", "lacks", "needs", "refuses", "state_at"]


def refuses(action: Callable[..., Any], *arguments: Any, **named: Any) -> StoreError:
    """Asserts that the store refuses the call on purpose, and returns its error."""
    with pytest.raises(StoreError) as caught:
        action(*arguments, **named)
    assert not caught.value.is_accident, str(caught.value)
    return caught.value


def contents(store: Store, family: str | None = None) -> dict[Row, Row]:
    """Everything in a family, after checking that no key came twice."""
    found: list[Pair] = store.iterate(family)
    assert len({key for key, _ in found}) == len(found), f"a key came twice: {found}"
    return dict(found)


def commit_all(provider: Provider, version: int, entries: Iterable[tuple[Any, Any]]) -> int:
    """Puts the entries on top of a version and commits."""
    store = provider.load(version)
    store.put_all(entries)
    return store.commit()


def state_at(provider: Provider, version: int) -> dict[Row, Row]:
    """The rows of a version, read through a read store that is released again."""
    store = provider.load_read(version)
    found = contents(store)
    store.release()
    return found
