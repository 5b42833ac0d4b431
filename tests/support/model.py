"""The state store as a few dictionaries.

Problem: to know a store's right answers after any history of batches.
Answer: a model without files, bytes or versions of formats. Each family is a dictionary from key
to list of values; a commit copies them all; a load copies them back.
Invariant: the model never looks at a store. The right answer is known before the store is asked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.harness import (
    NO_PREFIX,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
    Encoder,
    Row,
    Shape,
)

DEFAULT = "default"

FAMILIES: dict[str, Shape] = {
    DEFAULT: Shape("a INT, b STRING", "v LONG, s STRING", NO_PREFIX),
    "grouped": Shape("g STRING, n INT", "v LONG, s STRING", Encoder.prefix(1)),
    "ranged": Shape("t LONG, n INT", "v LONG, s STRING", Encoder.range(0, 1)),
    "lists": Shape("a INT, b STRING", "v LONG, s STRING", NO_PREFIX, multiple_values=True),
    "by key": Shape(
        "k STRING, t LONG NOT NULL", "v LONG, s STRING", TIMESTAMP_POSTFIX, multiple_values=True
    ),
    "by time": Shape(
        "k STRING, t LONG NOT NULL", "v LONG, s STRING", TIMESTAMP_PREFIX, multiple_values=True
    ),
}

Family = dict[Row, list[Row]]
State = dict[str, Family]


def empty_state() -> State:
    return {name: {} for name in FAMILIES}


def nulls_last(key: Row) -> tuple[Any, ...]:
    """The order of a range encoder: by value, a null behind every value."""
    return tuple((value is None, 0 if value is None else value) for value in key)


@dataclass
class Model:
    """A store's right answers: the committed versions and the batch that is open on one."""

    versions: dict[int, State] = field(default_factory=lambda: {0: empty_state()})
    latest: int = 0
    # The highest version any history committed: retention may count from it.
    highest: int = 0
    base: int | None = None
    state: State = field(default_factory=empty_state)

    def load(self, version: int) -> None:
        assert self.base is None
        self.base = version
        self.state = copy.deepcopy(self.versions[version])

    def commit(self) -> int:
        assert self.base is not None
        version = self.base + 1
        # Versions after the one that is now replaced belong to another history.
        self.versions = {old: kept for old, kept in self.versions.items() if old < version}
        self.versions[version] = self.state
        self.latest = version
        self.highest = max(self.highest, version)
        self.base = None
        return version

    def abort(self) -> None:
        self.base = None

    def loadable(self, retained: int, depth: int) -> list[int]:
        """Versions that may be asked for again, given how many are retained."""
        return [
            version
            for version in self.versions
            if version > self.highest - retained and version >= self.latest - depth
        ]

    # ---- one key ---------------------------------------------------------------------------------

    def put_list(self, family: str, key: Row, values: list[Row]) -> None:
        self.state[family][key] = list(values)

    def merge_list(self, family: str, key: Row, values: list[Row]) -> None:
        self.state[family].setdefault(key, []).extend(values)

    def remove(self, family: str, key: Row) -> None:
        self.state[family].pop(key, None)

    def get(self, family: str, key: Row) -> Row | None:
        values = self.state[family].get(key)
        return values[0] if values else None

    def values(self, family: str, key: Row) -> list[Row]:
        return list(self.state[family].get(key, []))

    # ---- many keys -------------------------------------------------------------------------------

    def select(self, family: str, wanted: Callable[[Row], bool]) -> list[tuple[Row, Row]]:
        return [
            (key, value)
            for key, values in self.state[family].items()
            if wanted(key)
            for value in values
        ]

    def delete_range(self, family: str, start: Row, end: Row) -> None:
        low, high = nulls_last(start), nulls_last(end)
        self.state[family] = {
            key: values
            for key, values in self.state[family].items()
            if not low <= nulls_last(key) < high
        }

    def key_count(self) -> int:
        return sum(len(family) for family in self.state.values())
