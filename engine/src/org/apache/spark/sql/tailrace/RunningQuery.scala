package org.apache.spark.sql.tailrace

import java.util.UUID

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.{OneTimeTrigger => Once}
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime._

import tailrace.semantics.ReplayableSource

/**
 * The query whose thread this is, as far as the commit protocol has to know it. In this package
 * because Spark keeps the list of running queries to itself.
 */
final class RunningQuery private (execution: StreamExecution) {
  val run: String = execution.runId.toString

  /** The query stops after this batch and asks for no other: the batch is published before. */
  def runsOnce: Boolean = execution.trigger == Once

  /** Asynchronous progress tracking writes an entry now and then: its logs have gaps. */
  def hasWholeLogs: Boolean =
    !execution.isInstanceOf[AsyncProgressTrackingMicroBatchExecution]

  /** Whether the batch that runs now keeps state in stores of this provider. */
  def keepsStateIn(provider: Class[_]): Boolean =
    execution.lastExecution.sparkSession.sessionState.conf.stateStoreProviderClass ==
      provider.getName &&
      execution.lastExecution.executedPlan.exists(_.isInstanceOf[StateStoreWriter])

  /**
   * Runs the present batch again, for its state alone. A sink that has the batch already
   * does not run it again after a crash, but the state of it may be lost.
   */
  def runForState(): Unit = execution.lastExecution.toRdd.foreachPartition(RunningQuery.useUp)

  /**
   * Whether a source may forget data once a batch is committed to it. Only sources that are known
   * to do nothing then are trusted; a user's own source is not.
   */
  def hasSourceThatForgets: Boolean = execution.logicalPlan.collect {
    case relation: StreamingExecutionRelation => relation.source
    case relation: StreamingDataSourceV2ScanRelation => relation.stream
  }.exists(RunningQuery.mayForget)
}

object RunningQuery {
  private val Harmless = Set(
    "org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream",
    "org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchStream",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.sql.kafka010.KafkaSource")

  private val useUp = (rows: Iterator[InternalRow]) => rows.foreach(_ => ())

  /** The query of this thread, if it is the one that owns the checkpoint of this name. */
  def of(root: String): Option[RunningQuery] = for {
    context <- SparkContext.getActive
    name <- Option(context.getLocalProperty(StreamExecution.QUERY_ID_KEY))
    id <- Try(UUID.fromString(name)).toOption
    session <- SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
    execution <- Option(session.sharedState.activeStreamingQueries.get(id))
    if new Path(execution.resolvedCheckpointRoot).toString == root // Spark has qualified it
  } yield new RunningQuery(execution)

  private def mayForget(source: SparkDataStream): Boolean = source match {
    case _: ReplayableSource => false
    case files: FileStreamSource => cleans(files)
    case other => !Harmless(other.getClass.getName)
  }

  /** Whether the option cleanSource is set; if that cannot be seen, it may be. */
  private def cleans(source: FileStreamSource): Boolean = Try {
    val field = classOf[FileStreamSource].getDeclaredField("sourceCleaner")
    field.setAccessible(true)
    field.get(source).asInstanceOf[Option[_]].nonEmpty
  }.getOrElse(true)
}
