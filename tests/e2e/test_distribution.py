"""Our operators' wish to the plan below them: rows of one key in the partition of their state.

Problem: an operator that is put into a finished plan gets the right partitions because the one it
replaces asked for them; a later rule that plans exchanges anew would see no such wish.
Answer: the three operators declare the same as Spark's own. Spark's checks are run on the plans:
the one that validates requirements, and the one that repairs a plan that does not meet them.
Invariant: a plan without the exchange is refused by the first and gets one from the second.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from .harness import TAILRACE, new_session

STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
PARTITIONS = 2


def totals(rows):
    return rows.groupBy("digit").agg(F.sum("value"))


def medians(rows):
    return rows.groupBy(F.window("timestamp", "10 seconds"), "digit").agg(F.median("value"))


def session_medians(rows):
    return rows.groupBy(F.session_window("timestamp", "10 seconds"), "digit").agg(F.median("value"))


# By operator: a query, its mode, and the columns by which rows have to be together.
OPERATORS = {
    "MergeStateExec": (totals, "update", ["digit"]),
    "WindowRowsExec": (medians, "append", ["window", "digit"]),
    "SessionRowsExec": (session_medians, "append", ["digit"]),
}


class Planned:
    """The operator of a streaming query's plan, and the plan below it."""

    def __init__(self, spark, name, conf=None):
        build, mode, self.columns = OPERATORS[name]
        session = new_session(spark, TAILRACE, conf or {})
        rate = session.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
        rows = rate.withColumn("digit", F.col("value") % 10)
        self.jvm = spark._jvm
        plans = self.jvm.org.apache.spark.sql.tailrace.StreamingPlan
        plan = plans.ofFrame(build(rows)._jdf, mode)
        (self.operator,) = (each for each in walk(plan) if class_of(each) == name)

    @property
    def distribution(self):
        return self.operator.requiredChildDistribution().head()

    def without_exchange(self):
        exchange = next(e for e in walk(self.operator) if class_of(e) == "ShuffleExchangeExec")
        below = unwrapped(exchange.child())
        if class_of(self.child) == "SortExec":  # the order is right, only the partitions are not
            below = self.replaced(self.child, below)
        return self.replaced(self.operator, below)

    @property
    def child(self):
        return unwrapped(self.operator.child())

    def replaced(self, plan, child):
        children = self.jvm.scala.jdk.javaapi.CollectionConverters.asScala([child])
        return plan.withNewChildren(children.toSeq())

    def is_valid(self, plan):
        return self.jvm.org.apache.spark.sql.execution.exchange.ValidateRequirements.validate(plan)

    def repaired(self, plan):
        none = self.jvm.scala.Option.empty()
        rule = self.jvm.org.apache.spark.sql.execution.exchange.EnsureRequirements(True, none)
        return rule.apply(plan)


def walk(plan):
    yield plan
    children = plan.children()
    for place in range(children.length()):
        yield from walk(children.apply(place))


def unwrapped(plan):
    """Without the nodes that Spark puts around operators that are compiled together."""
    while class_of(plan) in ("WholeStageCodegenExec", "InputAdapter"):
        plan = plan.child()
    return plan


def class_of(java_object):
    return java_object.getClass().getSimpleName()


def names(expressions):
    return [expressions.apply(place).name() for place in range(expressions.length())]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    ("strict", "kind"),
    [("true", "StatefulOpClusteredDistribution"), ("false", "ClusteredDistribution")],
)
def test_the_distribution_is_that_of_sparks_operators(spark, name, strict, kind):
    planned = Planned(spark, name, {STRICT: strict})
    wanted = planned.distribution
    assert class_of(wanted) == kind
    columns = wanted.expressions() if strict == "true" else wanted.clustering()
    assert names(columns) == planned.columns
    assert wanted.requiredNumPartitions().get() == PARTITIONS
    assert planned.is_valid(planned.operator)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_plan_without_the_exchange_is_refused_and_repaired(spark, name):
    planned = Planned(spark, name)
    broken = planned.without_exchange()
    assert not planned.is_valid(broken)
    repaired = planned.repaired(broken)
    assert class_of(repaired) == name
    assert [class_of(each) for each in walk(repaired)].count("ShuffleExchangeExec") == 1
    assert planned.is_valid(repaired)


def test_sessions_want_their_rows_in_order(spark):
    planned = Planned(spark, "SessionRowsExec")
    unsorted = planned.replaced(planned.operator, unwrapped(planned.child.child()))
    assert not planned.is_valid(unsorted)
    assert class_of(planned.repaired(unsorted).child()) == "SortExec"
    assert planned.is_valid(planned.operator)
