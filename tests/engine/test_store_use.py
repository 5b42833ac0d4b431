"""A plan's uses of its stores, on their way from the driver to a task.

Problem: they travel as a text, and the names of stores and families are in it; a name with a
separator of the text would be read as another name.
Answer: names with all such characters, there and back.
Invariant: the uses read are those written, whatever the names; of another store or run, nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

RUN = "4f3c"
NAMES = [
    "default",
    "left-keyToNumValues",
    "a;b",
    "a,b",
    "a b",
    " a ",
    "a+b%20",
    "100%",
    "a=b&c",
    "due 5",
    "keys x y",
    "Größe 大小",
    "line\nbreak",
    "-",
    "",
]


class Plans:
    """The engine's classes."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm = spark._jvm
        self.semantics = self.jvm.tailrace.semantics
        self.use = self.semantics.StoreUse

    def some(self, value: Any) -> Any:
        return self.jvm.scala.Option.apply(value)

    def pattern(self, name: str) -> Any:
        return getattr(getattr(self.semantics, f"Pattern${name}$"), "MODULE$")

    def time(self) -> Any:
        return self.jvm.tailrace.layout.time.TimeColumn(True, 3, 1, 2, 1, -7, 20)

    def keys_due_in(self, store: str, family: str) -> Any:
        return getattr(self.semantics, "Scan$KeysDueIn")(store, family)

    def due_up_to(self, time: int) -> Any:
        return getattr(self.semantics, "Scan$DueUpTo")(time)

    def encoded(self, *stores: Any) -> str:
        found = self.jvm.scala.jdk.javaapi.CollectionConverters.asScala(list(stores)).toSeq()
        return str(self.use.encode(self.semantics.OperatorUse(RUN, 2, 57, "join", found, False)))


@pytest.fixture(scope="module")
def plans(spark: SparkSession) -> Plans:
    return Plans(spark)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_comes_through(plans: Plans, name: str) -> None:
    known, unknown = plans.pattern("Update"), plans.pattern("Unknown")
    none = plans.jvm.scala.Option.empty()
    other = plans.keys_due_in("x" + name, name)
    text = plans.encoded(
        plans.semantics.StoreUse(name, "first", known, "", plans.some(plans.time()), other),
        plans.semantics.StoreUse(name, name, unknown, "", none, plans.due_up_to(-5)),
        plans.semantics.StoreUse("another", name, known, "", none, plans.due_up_to(9)),
    )
    found = plans.use.decode(text, RUN, name).get()
    assert found.version() == 57
    assert found.families().size() == 2
    first = found.families().apply("first")
    assert first.isKnown()
    assert first.time().get().equals(plans.time())
    assert first.scan().equals(other)
    second = found.families().apply(name)
    assert not second.isKnown()
    assert second.time().isEmpty()
    assert second.scan().equals(plans.due_up_to(-5))


def test_what_was_said_of_another_run_is_not_read(plans: Plans) -> None:
    known, none = plans.pattern("Update"), plans.jvm.scala.Option.empty()
    text = plans.encoded(
        plans.semantics.StoreUse("default", "rows", known, "", none, plans.due_up_to(1))
    )
    assert plans.use.decode(text, "another", "default").isEmpty()
    assert plans.use.decode(None, RUN, "default").isEmpty()
    assert plans.use.decode(text, RUN, "left").get().families().isEmpty()
