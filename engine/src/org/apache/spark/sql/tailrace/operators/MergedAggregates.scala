package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec, SortAggregateExec}
import org.apache.spark.sql.streaming.OutputMode

/**
 * Problem: to add a batch to the state, Spark reads the state of every key, aggregates it again
 * with the new rows, and writes every key: two look-ups, and a hash table in between.
 *
 * Answer: where all aggregates are declarative and the output is the changed or the closed keys, one
 * operator merges each key in its place. See [[MergeStateExec]].
 */
object MergedAggregates {
  def replaceIn(plan: SparkPlan): SparkPlan = plan.transformUp {
    case last: BaseAggregateExec =>
      StreamingAggregation.of(last).flatMap(merged).fold[SparkPlan](last) { merge =>
        last.withNewChildren(Seq(merge))
      }
  }

  /**
   * By hash, or sorted where an intermediate result has no fixed size, such as the largest text. The
   * step after the state may be a sorted one as well: it wants equal keys together, and there are
   * none.
   */
  private def givesEachKeyOnce(merging: BaseAggregateExec): Boolean = merging match {
    case _: HashAggregateExec | _: SortAggregateExec => true
    case _ => false
  }

  private def merged(found: StreamingAggregation): Option[MergeStateExec] = {
    val functions = found.merging.aggregateExpressions.map(_.aggregateFunction).collect {
      case declarative: DeclarativeAggregate => declarative
    }
    val buffers = functions.flatMap(_.inputAggBufferAttributes)
    val suits = functions.length == found.merging.aggregateExpressions.length &&
      buffers.nonEmpty && found.save.keyExpressions.nonEmpty &&
      found.save.stateFormatVersion == 2 &&
      !found.save.outputMode.contains(OutputMode.Complete()) &&
      givesEachKeyOnce(found.merging) &&
      found.merging.output.map(_.exprId) ==
        (found.save.keyExpressions ++ buffers).map(_.exprId)
    val save = found.save
    if (suits) {
      Some(MergeStateExec(save.keyExpressions, functions, save.stateInfo, save.outputMode.get,
        save.eventTimeWatermarkForLateEvents, save.eventTimeWatermarkForEviction, found.merging))
    } else {
      None
    }
  }
}
