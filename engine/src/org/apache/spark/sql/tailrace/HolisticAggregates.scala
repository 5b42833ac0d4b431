package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, SortAggregateExec}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.MetadataBuilder

/**
 * Problem: a median, a percentile or a list of all values has no small intermediate result. Spark
 * keeps its growing buffer in the state, reads and writes the whole of it in every batch, and shows
 * it once.
 *
 * Answer: where such an aggregate is shown when its window closes and not before (append mode), the
 * rows are kept as they come (an append each), and aggregated when the window closes. Seven
 * operators become three:
 * {{{
 *   final - save - merge - restore - merge - exchange - partial - input
 *   complete aggregate - WindowRowsExec - exchange - input's columns
 * }}}
 */
object HolisticAggregates {
  import StreamingAggregation.below

  /** @param wanted whether this operator is to be replaced, if it can be */
  def replaceIn(plan: SparkPlan, wanted: StatefulOperatorStateInfo => Boolean): SparkPlan =
    plan.transformUp {
      case Aggregation(last, save, exchange, first) if wanted(save.stateInfo.get) =>
        val keys = first.groupingExpressions.map(_.toAttribute)
        val rows = columnsOf(first)
        val input = ProjectExec(first.groupingExpressions ++ rows, first.child)
        val kept = WindowRowsExec(keys, rows, save.stateInfo, save.eventTimeWatermarkForLateEvents,
          save.eventTimeWatermarkForEviction, exchange.copy(child = input))
        // The first aggregate's expressions: the later ones have lost their filters.
        // It wants equal keys next to each other; that they come in order is not needed.
        SortAggregateExec(None, isStreaming = false, None, keys,
          first.aggregateExpressions.map(_.copy(mode = Complete)), last.aggregateAttributes,
          initialInputBufferOffset = 0, last.resultExpressions, kept)
    }

  /** A holistic aggregation that is shown when windows close. */
  private object Aggregation {
    def unapply(plan: SparkPlan): Option[
        (BaseAggregateExec, StateStoreSaveExec, ShuffleExchangeExec, BaseAggregateExec)] = for {
      found <- StreamingAggregation.of(plan)
      if found.save.outputMode.contains(OutputMode.Append())
      if found.last.aggregateExpressions.exists(each => isHolistic(each.aggregateFunction))
      exchange <- below(found.merging).collect { case exchange: ShuffleExchangeExec => exchange }
      first <- below(exchange).collect { case first: BaseAggregateExec => first }
      if first.aggregateExpressions.forall(_.mode == Partial) && columnsOf(first).nonEmpty
    } yield (found.last, found.save, exchange, first)
  }

  /** What the aggregates read, besides the grouping columns. */
  private def columnsOf(first: BaseAggregateExec): Seq[Attribute] = {
    val read = AttributeSet(first.aggregateExpressions.flatMap(_.references))
    val grouping = AttributeSet(first.groupingExpressions.map(_.toAttribute))
    first.child.output.filter(read.contains).filterNot(grouping.contains).distinct
      .map(withoutWatermark)
  }

  /** The window has the event time; Spark wants to find only one. */
  private def withoutWatermark(column: Attribute): Attribute = column.withMetadata(
    new MetadataBuilder().withMetadata(column.metadata).remove(EventTimeWatermark.delayKey).build())

  /** Whether the intermediate result grows with every row. */
  private def isHolistic(function: AggregateFunction): Boolean = function match {
    case _: Percentile | _: CollectList | _: Mode => true
    case other => other.getClass.getSimpleName match {
      case "PercentileCont" | "PercentileDisc" | "ListAgg" => true
      case _ => false
    }
  }
}
