package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.WatermarkSupport
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec

import tailrace.layout.UseClock

/**
 * Rows that are older than the watermark: the operator drops them, so nothing is read for them.
 *
 * @param upTo in microseconds; the operator drops rows of this time and before
 */
final case class LateRows(upTo: Long) {
  def has(time: Long): Boolean = time <= upTo && time != UseClock.Unknown
}

object LateRows {
  val None: LateRows = LateRows(UseClock.Unknown)

  /** By the rule of Spark's operators. */
  def of(operator: SparkPlan): LateRows = operator match {
    case marked: WatermarkSupport => upTo(marked.eventTimeWatermarkForLateEvents)
    case join: StreamingSymmetricHashJoinExec => upTo(join.eventTimeWatermarkForLateEvents)
    case _ => None
  }

  private def upTo(watermark: Option[Long]): LateRows =
    watermark.filter(_ > 0).fold(None)(millis => LateRows(millis * 1000))
}
