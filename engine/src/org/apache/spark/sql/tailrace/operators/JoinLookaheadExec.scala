package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import tailrace.spark.ExpectedJoin

/**
 * A [[LookaheadExec]] below one side of a stream-stream join: its key leads to a number, and that to
 * the keys of rows (see [[tailrace.spark.ExpectedJoin]]).
 *
 * Invariant: the join gets the same rows in the same order. Rows are taken ahead only while a store of
 * the join has spilled records.
 *
 * @param keys        the key of a row, which both sides have
 * @param side        the side of this child
 * @param hasFamilies the join has one store with a family for each table (state format 3)
 * @param late        rows that the join drops
 * @param onDemand    records are read for the rows at hand alone
 */
case class JoinLookaheadExec(
    keys: Seq[Expression], side: JoinLookaheadExec.Side, hasFamilies: Boolean,
    stateInfo: StatefulOperatorStateInfo, late: LateRows, onDemand: Boolean, child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (info, wanted, columns, sides, families) =
      (stateInfo, keys, child.output, (side.name, side.other), hasFamilies)
    val (dropped, demands, time) = (late, onDemand, RowTime.in(child.output))
    child.execute().mapPartitionsWithIndexInternal { (partition, rows) =>
      new JoinLookaheadRows(rows,
        () => ExpectedJoin.in(info.queryRunId.toString, info.checkpointLocation, info.operatorId,
          partition, sides, families, JoinLookaheadExec.withNumber(wanted)),
        () => UnsafeProjection.create(wanted, columns), time, dropped, demands)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): JoinLookaheadExec =
    copy(child = newChild)
}

object JoinLookaheadExec {
  sealed abstract class Side(val name: String, val other: String) extends Serializable

  case object Left extends Side("left", "right")
  case object Right extends Side("right", "left")

  /** The key of a row of state, as Spark's join makes it: the join's key and a number. */
  private def withNumber(keys: Seq[Expression]): (UnsafeRow, Long) => UnsafeRow = {
    val columns = keys.zipWithIndex.map { case (key, ordinal) =>
      BoundReference(ordinal, key.dataType, key.nullable)
    }
    val projection = UnsafeProjection.create(columns :+ Literal(0L))
    (key, number) => {
      val row = projection(key)
      row.setLong(columns.length, number)
      row
    }
  }
}
