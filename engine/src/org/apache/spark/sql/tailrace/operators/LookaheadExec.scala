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
 * Invariant: the operator gets the same rows in the same order. Rows are taken ahead only while the
 * store has spilled records.
 *
 * @param keys the key of a row in the operator's store
 */
case class LookaheadExec(
    keys: Seq[Expression], stateInfo: StatefulOperatorStateInfo, child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (info, wanted, columns) = (stateInfo, keys, child.output)
    child.execute().mapPartitionsWithIndexInternal { (partition, rows) =>
      val store = StateStoreId(info.checkpointLocation, info.operatorId, partition)
      new LookaheadRows(rows,
        () => ExpectedKeys.in(info.queryRunId.toString, store),
        () => UnsafeProjection.create(wanted, columns))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookaheadExec =
    copy(child = newChild)
}
