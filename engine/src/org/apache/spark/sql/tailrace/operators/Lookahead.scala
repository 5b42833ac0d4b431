package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec

/**
 * Which operators of a plan get rows from a [[LookaheadExec]]: those that look up one key of a store
 * for each row, and whose records can be spilled.
 */
object Lookahead {
  /**
   * Rows that an operator gets, and the key under which it looks each of them up.
   *
   * @param inTask a row's key is one of the operator's only store: it can be expected in the task
   */
  private[operators] final case class Input(
      child: SparkPlan, keys: Seq[Expression], inTask: Boolean = true)

  /** Whether the plan has such an operator. */
  def suits(plan: SparkPlan): Boolean = plan.exists {
    case operator: StatefulOperator => operator.stateInfo.isDefined && inputsOf(operator).nonEmpty
    case _ => false
  }

  /** @param onDemand records are read for the rows at hand alone, to compare with */
  def insertIn(plan: SparkPlan, onDemand: Boolean = false): SparkPlan = plan.transformUp {
    case join: StreamingSymmetricHashJoinExec
      if join.stateInfo.isDefined && hasNumbers(join) && !isIn(join) =>
      def ahead(keys: Seq[Expression], side: JoinLookaheadExec.Side, child: SparkPlan) =
        JoinLookaheadExec(keys, side, join.stateFormatVersion == 3, join.stateInfo.get,
          LateRows.of(join), onDemand, child)
      join.withNewChildren(Seq(ahead(join.leftKeys, JoinLookaheadExec.Left, join.left),
        ahead(join.rightKeys, JoinLookaheadExec.Right, join.right)))
    case operator: StatefulOperator if operator.stateInfo.isDefined =>
      keysOf(operator) match {
        case Some(keys) if !isIn(operator) => operator.withNewChildren(
          LookaheadExec(keys, operator.stateInfo.get, LateRows.of(operator), onDemand,
            isSorted = wantsOrder(operator), operator.children.head) +: operator.children.tail)
        case _ => operator
      }
  }

  /** Whether the operator's rows are looked ahead. */
  def isIn(operator: SparkPlan): Boolean =
    operator.children.headOption.exists {
      case _: LookaheadExec | _: JoinLookaheadExec => true
      case _ => false
    }

  /** Of a join both sides. */
  private[operators] def inputsOf(operator: StatefulOperator): Seq[Input] = operator match {
    case join: StreamingSymmetricHashJoinExec if hasNumbers(join) => Seq(
      Input(join.left, join.leftKeys, inTask = false),
      Input(join.right, join.rightKeys, inTask = false))
    case _ => keysOf(operator).map(Input(operator.children.head, _)).toSeq
  }

  /** Later formats keep a side in the order of time, and never spill it. */
  private def hasNumbers(join: StreamingSymmetricHashJoinExec): Boolean = join.stateFormatVersion <= 3

  /** It, or an operator above it, may count on the order of its rows. */
  private def wantsOrder(operator: SparkPlan): Boolean =
    operator.requiredChildOrdering.exists(_.nonEmpty) ||
      operator.children.head.outputOrdering.nonEmpty

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
