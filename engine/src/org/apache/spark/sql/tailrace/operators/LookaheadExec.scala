package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import tailrace.spark.ExpectedKeys

/**
 * Problem: an operator looks a key up when it has its row, and waits for the disk if the record was
 * spilled.
 *
 * Answer: the nearest lookahead operator of Keyed Prefetching, in the task itself (RFC 12). When the
 * task starts, all its rows are there, because a shuffle is before it. This node, right below the
 * stateful operator, takes some thousands of rows before the operator asks for them, and tells the
 * store their keys. It needs no message, and sees exactly the operator's keys.
 *
 * Invariant: the operator gets the same rows in the same order, but on demand (see [[DemandRows]]).
 * Rows are taken ahead only while the store has spilled records.
 *
 * @param keys     the key of a row in the operator's store
 * @param late     rows that the operator drops
 * @param onDemand records are read for the rows at hand alone
 * @param isSorted the operator wants its rows in their order
 */
case class LookaheadExec(
    keys: Seq[Expression], stateInfo: StatefulOperatorStateInfo, late: LateRows, onDemand: Boolean,
    isSorted: Boolean, child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] =
    if (onDemand && !isSorted) Nil else child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (info, wanted, columns, dropped) = (stateInfo, keys, child.output, late)
    val (demands, keepsOrder, time) = (onDemand, isSorted, RowTime.in(child.output))
    child.execute().mapPartitionsWithIndexInternal { (partition, rows) =>
      val store = StateStoreId(info.checkpointLocation, info.operatorId, partition)
      val open = () => ExpectedKeys.in(info.queryRunId.toString, store)
      val newKeys = () => UnsafeProjection.create(wanted, columns)
      if (demands) new DemandRows(rows, open, newKeys, time, dropped, keepsOrder)
      else new LookaheadRows(rows, open, newKeys, time, dropped)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookaheadExec =
    copy(child = newChild)
}
