package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

import tailrace.prefetch.HintController.Route

/**
 * Problem: when the task of a stateful operator begins, the records of its first rows are still on the
 * disk, and it waits for them. The map side has seen their keys before.
 *
 * Answer: a lookahead operator of Keyed Prefetching (RFC 17). This node stands at one of the
 * candidates of [[HintCandidates]]. It tells the keys of the rows that pass to the executor that owns
 * their partition of the state, on a side channel. As a marker it only tells the driver when the last
 * row has passed.
 *
 * Invariant: the same rows pass in the same order, whatever becomes of the hints.
 *
 * @param what   of the operator whose stores are hinted at
 * @param sends  where the stores of each partition are; None: this is a marker
 */
case class HintExec(what: HintTarget, sends: Option[Seq[Route]], child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (target, routes, columns) = (what, sends.map(_.toArray), child.output)
    child.execute().mapPartitionsWithIndexInternal { (partition, rows) =>
      new HintRows(rows, target, routes, columns, partition)
    }
  }

  override def simpleString(maxFields: Int): String =
    s"Hints for operator ${what.operator}, ${what.name}${if (sends.isEmpty) " (marker)" else ""}"

  override protected def withNewChildInternal(newChild: SparkPlan): HintExec = copy(child = newChild)
}

/**
 * A candidate for the lookahead of an operator, and the rows there.
 *
 * @param level     how many candidates are nearer to the operator
 * @param inTask    it is in the operator's own task, which has its stores open
 * @param keys      the key of a row in the operator's store
 * @param partition the number of the partition that the row will go to
 * @param version   the version of the state at which the batch begins
 * @param late      rows that the operator drops
 */
case class HintTarget(
    run: String, root: String, operator: Long, version: Long, level: Int, name: String,
    inTask: Boolean, keys: Seq[Expression], partition: Expression, threshold: Int, late: LateRows)
