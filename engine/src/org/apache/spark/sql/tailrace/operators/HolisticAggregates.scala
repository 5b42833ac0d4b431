package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, AttributeSet, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, MergingSessionsExec, SortAggregateExec}
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
 * Over session windows it is a [[SessionRowsExec]], and its input is sorted.
 */
object HolisticAggregates {
  import StreamingAggregation.below

  /** @param wanted whether this operator is to be replaced, if it can be */
  def replaceIn(plan: SparkPlan, wanted: StatefulOperatorStateInfo => Boolean): SparkPlan =
    plan.transformUp {
      case Aggregation(last, save, exchange, first) if wanted(save.stateInfo.get) =>
        complete(last, first, WindowRowsExec(
          keysOf(first), columnsOf(first), save.stateInfo, save.eventTimeWatermarkForLateEvents,
          save.eventTimeWatermarkForEviction, exchange.copy(child = inputOf(first))))
      case SessionAggregation(last, save, exchange, first) if wanted(save.stateInfo.get) =>
        val order = (save.keyWithoutSessionExpressions :+ save.sessionExpression)
          .map(SortOrder(_, Ascending))
        val trigger = TriggerTime.in(first.child)
        complete(last, first, SessionRowsExec(
          save.keyWithoutSessionExpressions, save.sessionExpression, columnsOf(first),
          trigger.map(_.toAttribute), save.stateInfo, save.eventTimeWatermarkForLateEvents,
          save.eventTimeWatermarkForEviction,
          SortExec(order, global = false, exchange.copy(child = inputOf(first, trigger)))))
    }

  /**
   * The first aggregate's expressions: the later ones have lost their filters. It wants equal keys
   * next to each other; that they come in order is not needed.
   */
  private def complete(
      last: BaseAggregateExec, first: BaseAggregateExec, rows: SparkPlan): SparkPlan =
    SortAggregateExec(None, isStreaming = false, None, keysOf(first),
      first.aggregateExpressions.map(_.copy(mode = Complete)), last.aggregateAttributes,
      initialInputBufferOffset = 0, last.resultExpressions, rows)

  /** A holistic aggregation that is shown when windows close. */
  private object Aggregation {
    def unapply(plan: SparkPlan): Option[
        (BaseAggregateExec, StateStoreSaveExec, ShuffleExchangeExec, BaseAggregateExec)] = for {
      found <- StreamingAggregation.of(plan)
      if found.save.outputMode.contains(OutputMode.Append())
      if isHolistic(found.last)
      exchange <- below(found.merging).collect { case exchange: ShuffleExchangeExec => exchange }
      first <- below(exchange).flatMap(firstIn)
    } yield (found.last, found.save, exchange, first)
  }

  /**
   * The same over session windows:
   * {{{  final - save - merging sessions - restore - exchange - (merging sessions -) partial  }}}
   */
  private object SessionAggregation {
    def unapply(plan: SparkPlan): Option[
        (BaseAggregateExec, SessionWindowStateStoreSaveExec, ShuffleExchangeExec,
          BaseAggregateExec)] = for {
      last <- Option(plan).collect { case last: BaseAggregateExec if isHolistic(last) => last }
      save <- below(last).collect { case save: SessionWindowStateStoreSaveExec => save }
      if save.stateInfo.isDefined && save.outputMode.contains(OutputMode.Append())
      merging <- below(save).collect { case merging: MergingSessionsExec => merging }
      restore <- below(merging).collect { case it: SessionWindowStateStoreRestoreExec => it }
      exchange <- below(restore).collect { case exchange: ShuffleExchangeExec => exchange }
      shuffled <- below(exchange)
      first <- shuffled match {
        case merging: MergingSessionsExec => below(merging).flatMap(firstIn)
        case other => firstIn(other)
      }
    } yield (last, save, exchange, first)
  }

  private def firstIn(plan: SparkPlan): Option[BaseAggregateExec] = Option(plan).collect {
    case first: BaseAggregateExec
      if first.aggregateExpressions.forall(_.mode == Partial) && columnsOf(first).nonEmpty => first
  }

  private def keysOf(first: BaseAggregateExec): Seq[Attribute] =
    first.groupingExpressions.map(_.toAttribute)

  private def inputOf(first: BaseAggregateExec, more: Iterable[NamedExpression] = Nil): SparkPlan =
    ProjectExec(first.groupingExpressions ++ columnsOf(first) ++ more, first.child)

  /** The columns that the aggregates read, besides the grouping columns. */
  private def columnsOf(first: BaseAggregateExec): Seq[Attribute] = {
    val read = AttributeSet(first.aggregateExpressions.flatMap(_.references))
    val grouping = AttributeSet(keysOf(first))
    first.child.output.filter(read.contains).filterNot(grouping.contains).distinct
      .map(withoutWatermark)
  }

  /** The window has the event time; Spark wants to find only one. */
  private def withoutWatermark(column: Attribute): Attribute = column.withMetadata(
    new MetadataBuilder().withMetadata(column.metadata).remove(EventTimeWatermark.delayKey).build())

  private def isHolistic(last: BaseAggregateExec): Boolean =
    last.aggregateExpressions.exists(each => isHolistic(each.aggregateFunction))

  /** Whether the intermediate result grows with every row. */
  private def isHolistic(function: AggregateFunction): Boolean = function match {
    case _: Percentile | _: CollectList | _: Mode => true
    case other => other.getClass.getSimpleName match {
      case "PercentileCont" | "PercentileDisc" | "ListAgg" => true
      case _ => false
    }
  }
}
