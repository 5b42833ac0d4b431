package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._

/**
 * A streaming aggregation as Spark plans it, from the last step to the first:
 * {{{  last - save - merged - restore - merging - (exchange - first - input)  }}}
 */
private[tailrace] final case class StreamingAggregation(
    last: BaseAggregateExec, save: StateStoreSaveExec, merging: BaseAggregateExec)

private[tailrace] object StreamingAggregation {
  def of(plan: SparkPlan): Option[StreamingAggregation] = for {
    last <- Option(plan).collect { case last: BaseAggregateExec => last }
    save <- below(last).collect { case save: StateStoreSaveExec => save }
    if save.stateInfo.isDefined && save.outputMode.isDefined
    merged <- below(save).collect { case merge: BaseAggregateExec => merge }
    restore <- below(merged).collect { case restore: StateStoreRestoreExec => restore }
    merging <- below(restore).collect { case merge: BaseAggregateExec => merge }
  } yield StreamingAggregation(last, save, merging)

  /** The only child, without a sort in between. */
  def below(plan: SparkPlan): Option[SparkPlan] = plan.children match {
    case Seq(sort: SortExec) => Some(sort.child)
    case Seq(only) => Some(only)
    case _ => None
  }
}
