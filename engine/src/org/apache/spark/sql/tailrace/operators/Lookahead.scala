package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec

/**
 * Which operators of a plan get rows from a [[LookaheadExec]]: those that look up one key of a store
 * for each row, and whose records can be spilled.
 */
object Lookahead {
  /** Rows that an operator gets, and the key under which it looks each of them up. */
  private[operators] final case class Input(child: SparkPlan, keys: Seq[Expression])

  /** Whether the plan has such an operator. */
  def suits(plan: SparkPlan): Boolean = plan.exists {
    case operator: StatefulOperator => operator.stateInfo.isDefined && keysOf(operator).isDefined
    case _ => false
  }

  def insertIn(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator: StatefulOperator if operator.stateInfo.isDefined =>
      keysOf(operator) match {
        case Some(keys) if !isIn(operator) => operator.withNewChildren(
          LookaheadExec(keys, operator.stateInfo.get, operator.children.head) +:
            operator.children.tail)
        case _ => operator
      }
  }

  /** Whether the operator's rows are looked ahead. */
  def isIn(operator: SparkPlan): Boolean =
    operator.children.headOption.exists(_.isInstanceOf[LookaheadExec])

  private[operators] def inputsOf(operator: StatefulOperator): Seq[Input] =
    keysOf(operator).map(Input(operator.children.head, _)).toSeq

  private def keysOf(operator: StatefulOperator): Option[Seq[Expression]] = operator match {
    case merge: MergeStateExec => Some(merge.keyExpressions)
    case restore: StateStoreRestoreExec if restore.keyExpressions.nonEmpty =>
      Some(restore.keyExpressions)
    case dedup: StreamingDeduplicateExec => Some(dedup.keyExpressions)
    case dedup: StreamingDeduplicateWithinWatermarkExec => Some(dedup.keyExpressions)
    case groups: FlatMapGroupsWithStateExec => Some(groups.groupingAttributes)
    case groups: FlatMapGroupsInPandasWithStateExec => Some(groups.groupingAttributes)
    case _ => None
  }
}
