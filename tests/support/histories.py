"""Histories of batches: from generated numbers to operations and their expected answers.

Problem: an operation makes sense only in the state it meets (a commit needs an open batch, a load
a version that exists), but a generator that knows the state cannot be shrunk.
Answer: a step is four free numbers. Here they are read against the model: the numbers choose among
the operations that are possible now. Every list of steps is a valid history, so any may be omitted.
Invariant: the operations and expected answers of a history depend on its steps alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from support.harness import Harness, Operation, Row, StoreError, pairs, row, wire
from support.model import DEFAULT, FAMILIES, Model, nulls_last

Step = tuple[int, int, int, int]
Check = Callable[[Any], None]


class Draw(NamedTuple):
    """The numbers of a step that remain once its action is chosen."""

    first: int
    second: int
    third: int


GROUPS = ("", "a", "ab", "b")
TEXT_LENGTHS = (0, 1, 3, 8, 30, 200, 1200)


# How often each kind of step comes, by the name of its method in History.
DATA: Mapping[str, int] = {
    "put": 18,
    "put_many": 3,
    "remove": 10,
    "get": 10,
    "change_list": 12,
    "read_list": 5,
    "prefix_scan": 6,
    "range_scan": 6,
    "delete_range": 3,
    "iterate": 3,
    "evict": 3,
    "commit": 9,
    "abort": 2,
    "load_again": 4,
    "read_version": 2,
    "restart": 2,
    "maintain": 2,
}
VERSIONS: Mapping[str, int] = {
    "put": 14,
    "remove": 4,
    "change_list": 6,
    "delete_range": 2,
    "commit": 36,
    "abort": 3,
    "load_again": 12,
    "read_version": 7,
    "restart": 6,
    "maintain": 10,
}


@dataclass(frozen=True)
class Setting:
    """The operations of a history, and how the store is configured."""

    class_name: str
    confs: dict[str, str]
    keys: int = 12
    # How many versions back a batch may start from.
    depth: int = 100
    retained: int = 100
    burst: int = 30
    # Whether numKeys can be trusted: RocksDB does not subtract the keys of a deleted range.
    counts_keys: bool = True
    shares: Mapping[str, int] = field(default_factory=lambda: DATA)


def same(expected: Any) -> Check:
    def check(answer: Any) -> None:
        assert answer == expected, f"expected {expected!r}, got {answer!r}"

    return check


def same_row(expected: Any) -> Check:
    return lambda answer: same(expected)(row(answer))


def same_rows(expected: list[Any]) -> Check:
    return lambda answer: same(expected)([row(value) for value in answer])


def order_of(found: list[tuple[Row, Row]], order: Callable[[Row], Any]) -> list[Any]:
    return [order(key) for key, _ in found]


def same_pairs(expected: list[tuple[Row, Row]], order: Callable[[Row], Any] | None) -> Check:
    """The same pairs; each key's values in their order; keys ordered if `order` is given."""

    def by_key(found: list[tuple[Row, Row]]) -> dict[Row, list[Row]]:
        groups: dict[Row, list[Row]] = {}
        for key, value in found:
            groups.setdefault(key, []).append(value)
        return groups

    def check(answer: Any) -> None:
        found = pairs(answer)
        same(by_key(expected))(by_key(found))
        if order is not None:
            orders = order_of(found, order)
            assert orders == sorted(orders), f"not in order: {found!r}"

    return check


def same_field(field_name: str, expected: int) -> Check:
    return lambda answer: same(expected)(answer[field_name])


@dataclass
class History:
    """Operations with their checks, built step by step against the model."""

    setting: Setting
    directory: str
    prefix: str
    model: Model = field(default_factory=Model)
    operations: list[Operation] = field(default_factory=list)
    checks: list[Check | None] = field(default_factory=list)
    providers: int = 0
    stores: int = 0

    def __post_init__(self) -> None:
        self.open_provider()

    # ---- emitting --------------------------------------------------------------------------------

    def emit(self, check: Check | None, op: str, **arguments: Any) -> None:
        self.operations.append({"op": op, **arguments})
        self.checks.append(check)

    def on_store(self, check: Check | None, op: str, **arguments: Any) -> None:
        self.emit(check, op, store=self.store, **arguments)

    @property
    def provider(self) -> str:
        return f"{self.prefix}-provider-{self.providers}"

    @property
    def store(self) -> str:
        return f"{self.prefix}-store-{self.stores}"

    def open_provider(self) -> None:
        self.providers += 1
        self.emit(
            None,
            "open",
            provider=self.provider,
            directory=self.directory,
            column_families=True,
            confs=self.setting.confs,
            **{"class": self.setting.class_name},
            **FAMILIES[DEFAULT].document(),
        )

    def register_families(self, op: str) -> None:
        for name, shape in FAMILIES.items():
            if name != DEFAULT:
                self.on_store(None, op, family=name, **shape.document())

    def load(self, version: int) -> None:
        self.stores += 1
        self.model.load(version)
        self.on_store(None, "load", provider=self.provider, version=version)
        self.register_families("create_family")

    def require_batch(self) -> None:
        if self.model.base is None:
            self.load(self.model.latest)

    # ---- reading the numbers ---------------------------------------------------------------------

    def key(self, family: str, number: int) -> Row:
        number %= self.setting.keys
        if family in (DEFAULT, "lists"):
            return (number // 3 - 2, (None, "", "b" * (number % 50))[number % 3])
        if family == "grouped":
            return (GROUPS[number % len(GROUPS)], number // len(GROUPS) - 2)
        if family == "ranged":
            time = None if number % 11 == 10 else (number // 2 - 3) * (1 if number % 3 else 1 << 33)
            return (time, None if number % 7 == 6 else number % 4 - 2)
        return (GROUPS[number % len(GROUPS)], (number // len(GROUPS) - 1) * 1000)

    @staticmethod
    def value(number: int) -> Row:
        return (
            None if number % 17 == 16 else number - 50,
            None if number % 5 == 4 else "xy"[number % 2] * TEXT_LENGTHS[number % 7],
        )

    # ---- steps -----------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        choice, *numbers = step
        choice %= sum(self.setting.shares.values())
        for name, share in self.setting.shares.items():
            if choice < share:
                getattr(self, name)(Draw(*numbers))
                return
            choice -= share

    def put(self, draw: Draw) -> None:
        self.require_batch()
        name = list(FAMILIES)[draw.third % len(FAMILIES)]
        key, value = self.key(name, draw.first), self.value(draw.second)
        self.model.put_list(name, key, [value])
        self.on_store(None, "put", family=name, key=key, value=value)

    def put_many(self, draw: Draw) -> None:
        self.require_batch()
        name = list(FAMILIES)[draw.third % len(FAMILIES)]
        entries = []
        for offset in range(self.setting.burst):
            key, value = self.key(name, draw.first + offset), self.value(draw.second + offset)
            self.model.put_list(name, key, [value])
            entries.append([key, value])
        self.on_store(None, "put_all", family=name, pairs=entries)

    def remove(self, draw: Draw) -> None:
        self.require_batch()
        name = list(FAMILIES)[draw.third % len(FAMILIES)]
        key = self.key(name, draw.first)
        self.model.remove(name, key)
        self.on_store(None, "remove", family=name, key=key)

    def get(self, draw: Draw) -> None:
        self.require_batch()
        name = list(FAMILIES)[draw.third % len(FAMILIES)]
        key = self.key(name, draw.first)
        expected = self.model.get(name, key)
        if draw.second % 3 == 0:
            self.on_store(same(expected is not None), "key_exists", family=name, key=key)
        elif draw.second % 3 == 1 and name == DEFAULT:
            keys = [self.key(name, draw.first + offset * draw.second) for offset in range(5)]
            found = [self.model.get(name, each) for each in keys]
            self.on_store(same_rows(found), "multi_get", family=name, keys=keys)
        else:
            self.on_store(same_row(expected), "get", family=name, key=key)

    def change_list(self, draw: Draw) -> None:
        self.require_batch()
        name = ("lists", "by key", "by time")[draw.third % 3]
        key = self.key(name, draw.first)
        values = [self.value(draw.second + offset) for offset in range(draw.second % 4 + 1)]
        if draw.first % 4 == 0:
            self.model.put_list(name, key, values)
            self.on_store(None, "put_list", family=name, key=key, values=values)
        elif draw.first % 4 == 1:
            self.model.merge_list(name, key, values)
            self.on_store(None, "merge_list", family=name, key=key, values=values)
        else:
            self.model.merge_list(name, key, values[:1])
            self.on_store(None, "merge", family=name, key=key, value=values[0])

    def read_list(self, draw: Draw) -> None:
        self.require_batch()
        name = ("lists", "by key", "by time")[draw.third % 3]
        key = self.key(name, draw.first)
        self.on_store(same_rows(self.model.values(name, key)), "values", family=name, key=key)

    def prefix_scan(self, draw: Draw) -> None:
        self.require_batch()
        if draw.third % 2:
            group = GROUPS[draw.first % len(GROUPS)]
            found = self.model.select("grouped", lambda key: key[0] == group)
            self.on_store(same_pairs(found, None), "prefix_scan", family="grouped", prefix=[group])
        else:
            group = GROUPS[draw.first % len(GROUPS)]
            found = self.model.select("by key", lambda key: key[0] == group)
            check = same_pairs(found, lambda key: key[1])
            self.on_store(check, "prefix_scan_multiple", family="by key", prefix=[group])

    def range_scan(self, draw: Draw) -> None:
        self.require_batch()
        if draw.third % 2:
            start, end = self.key("ranged", draw.first), self.key("ranged", draw.second)
            low = nulls_last(start) if draw.third % 4 == 1 else None
            high = nulls_last(end) if draw.third % 3 else None
            found = self.model.select(
                "ranged",
                lambda key: (
                    (low is None or low <= nulls_last(key))
                    and (high is None or nulls_last(key) < high)
                ),
            )
            self.on_store(
                same_pairs(found, nulls_last),
                "range_scan",
                family="ranged",
                start=None if low is None else start,
                end=None if high is None else end,
            )
        else:
            start_time, end_time = (
                self.key("by time", draw.first)[1],
                self.key("by time", draw.second)[1],
            )
            found = self.model.select("by time", lambda key: start_time <= key[1] < end_time)
            self.on_store(
                same_pairs(found, lambda key: key[1]),
                "range_scan_multiple",
                family="by time",
                start=["", start_time],
                end=["", end_time],
            )

    def delete_range(self, draw: Draw) -> None:
        self.require_batch()
        start, end = sorted(
            (self.key("ranged", draw.first), self.key("ranged", draw.first + draw.second % 6)),
            key=nulls_last,
        )
        self.model.delete_range("ranged", start, end)
        self.on_store(None, "delete_range", family="ranged", start=start, end=end)

    def iterate(self, draw: Draw) -> None:
        self.require_batch()
        self.iterate_family(list(FAMILIES)[draw.third % len(FAMILIES)])

    def evict(self, draw: Draw) -> None:
        """Iterates and removes every row with an even number on the way, as a watermark does."""
        self.require_batch()
        name = (DEFAULT, "grouped", "ranged")[draw.third % 3]
        found = self.model.select(name, lambda _: True)
        order = nulls_last if name == "ranged" else None
        self.on_store(same_pairs(found, order), "evict", family=name)
        for key, value in found:
            if value[0] is not None and value[0] % 2 == 0:
                self.model.remove(name, key)

    def iterate_family(self, name: str) -> None:
        found = self.model.select(name, lambda _: True)
        order = nulls_last if name == "ranged" else None
        op = "iterate_multiple" if FAMILIES[name].multiple_values else "iterate"
        self.on_store(same_pairs(found, order), op, family=name)

    def commit(self, _: Draw) -> None:
        self.require_batch()
        version = self.model.commit()
        self.on_store(same(version), "commit")
        self.on_store(same(True), "has_committed")
        if self.setting.counts_keys:
            self.on_store(same_field("num_keys", self.model.key_count()), "metrics")

    def abort(self, _: Draw) -> None:
        self.end_batch()

    def end_batch(self) -> None:
        if self.model.base is not None:
            self.model.abort()
            self.on_store(None, "abort")
            self.on_store(same(False), "has_committed")

    def load_again(self, draw: Draw) -> None:
        """Goes back to a retained version; most often to the one before the last commit."""
        self.end_batch()
        versions = self.model.loadable(self.setting.retained, self.setting.depth)
        index = len(versions) - 2 if draw.third % 2 else draw.first % len(versions)
        self.load(versions[max(0, index)])

    def read_version(self, draw: Draw) -> None:
        """Reads a whole version through a read store, and may go on to write on top of it."""
        self.end_batch()
        versions = self.model.loadable(self.setting.retained, self.setting.depth)
        version = versions[draw.first % len(versions)]
        self.model.load(version)
        self.stores += 1
        self.on_store(None, "load_read", provider=self.provider, version=version)
        self.register_families("register_family")
        for name in FAMILIES:
            self.iterate_family(name)
        if draw.third % 3:
            self.model.abort()
            self.on_store(None, "release")
        else:
            reader = self.store
            self.stores += 1
            self.on_store(
                None, "upgrade", provider=self.provider, read_store=reader, version=version
            )
            self.register_families("create_family")

    def restart(self, draw: Draw) -> None:
        if draw.third % 2:
            self.end_batch()
        self.model.abort()
        self.emit(None, "close", provider=self.provider)
        self.open_provider()

    def maintain(self, draw: Draw) -> None:
        """Cleans up; every other time a new provider then has to find the oldest version."""
        self.emit(None, "maintain", provider=self.provider)
        if draw.third % 2:
            self.restart(draw)
            versions = self.model.loadable(self.setting.retained, self.setting.depth)
            self.read_version_fully(versions[0])

    def finish(self) -> None:
        """Every version that may still be loaded has the model's rows, for a new provider too."""
        versions = self.model.loadable(self.setting.retained, self.setting.depth)
        for version in {versions[0], versions[-1]}:
            self.read_version_fully(version)
        self.end_batch()
        self.emit(None, "close", provider=self.provider)
        self.open_provider()
        for version in versions:
            self.read_version_fully(version)
        self.emit(None, "close", provider=self.provider)

    def read_version_fully(self, version: int) -> None:
        self.end_batch()
        self.load(version)
        for name in FAMILIES:
            self.iterate_family(name)
        self.end_batch()

    # ---- running ---------------------------------------------------------------------------------

    def replay(self, harness: Harness) -> None:
        answers = harness.run(self.operations)
        for index, (answer, check) in enumerate(zip(answers, self.checks, strict=True)):
            try:
                assert not isinstance(answer, StoreError), str(answer)
                if check is not None:
                    check(answer)
            except AssertionError as difference:
                raise AssertionError(
                    f"operation {index} of {len(answers)}: "
                    f"{json.dumps(wire(self.operations[index]))[:600]}\n{difference}\n"
                    f"the operations before it:\n{self.excerpt(index)}"
                ) from None

    def excerpt(self, index: int, count: int = 40) -> str:
        told = [
            json.dumps(wire(operation))[:240]
            for operation in self.operations[: index + 1]
            if operation["op"] not in ("open", "create_family", "register_family")
        ]
        return "\n".join(told[-count:])


def history_of(steps: Sequence[Step], setting: Setting, directory: str, prefix: str) -> History:
    """The history of the steps, ended by reading every retained version."""
    history = History(setting, directory, prefix)
    for step in steps:
        history.step(step)
    history.finish()
    return history
