package org.apache.spark.sql.tailrace

import java.util.UUID

import org.apache.spark.sql.{DataFrame, classic}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.{IncrementalExecution, StreamingQueryWrapper, StreamExecution, WatermarkPropagator}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}

/**
 * The physical plan of a query's last batch, or the one that a streaming DataFrame would get. In
 * this package because Spark keeps the way from a query to its plan to itself.
 */
object StreamingPlan {
  /** None: the query has not planned a batch yet. */
  def ofQuery(query: StreamingQuery): Option[SparkPlan] = {
    val execution = query match {
      case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
      case own: StreamExecution => own
      case other => throw new IllegalArgumentException(s"$other is not a query of Spark's own")
    }
    Option(execution.lastExecution).map(_.executedPlan)
  }

  /** As Spark's own `explain` plans it: nothing is read, nothing is written. */
  def ofFrame(frame: DataFrame, mode: String): SparkPlan = {
    val planned = frame.asInstanceOf[classic.DataFrame].queryExecution
    new IncrementalExecution(
      planned.sparkSession, planned.logical, outputMode(mode), "<unknown>", UUID.randomUUID,
      UUID.randomUUID, 0, None, OffsetSeqMetadata(0, 0), WatermarkPropagator.noop(), false,
      mode = planned.mode).executedPlan
  }

  private def outputMode(name: String): OutputMode = name match {
    case "append" => OutputMode.Append()
    case "update" => OutputMode.Update()
    case "complete" => OutputMode.Complete()
  }
}
