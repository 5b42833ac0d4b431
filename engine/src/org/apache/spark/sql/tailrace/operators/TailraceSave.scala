package org.apache.spark.sql.tailrace.operators

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.WidenStatefulOpNullability
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning}
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.NextIterator

/**
 * An operator of ours in the place of Spark's `StateStoreSaveExec`: the parts that do not depend on
 * the form of a key's state. It has that operator's state, watermarks and metrics.
 */
trait TailraceSave extends UnaryExecNode with StateStoreWriter with WatermarkSupport {
  override def outputPartitioning: Partitioning = child.outputPartitioning

  /** As Spark's operators: a key's rows come to the partition that has its state. */
  override def requiredChildDistribution: Seq[Distribution] = Seq(
    StatefulOperatorPartitioning.getCompatibleDistribution(keyExpressions, getStateInfo, conf))

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    eventTimeWatermarkForEviction.exists(newInputWatermark > _)

  /** Spark has validated the operator that this one was put in the place of. */
  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil

  protected def schemaOf(columns: Seq[Attribute]): StructType =
    WidenStatefulOpNullability.widenStateSchema(StructType(columns.map(column =>
      StructField(column.name, column.dataType, column.nullable, column.metadata))))

  /** The rows of a batch without those that come too late. */
  protected def timely(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    watermarkPredicateForDataForLateEvents
      .fold(rows)(applyRemovingRowsOlderThanWatermark(rows, _))

  /** The closed keys. Taking one removes it from the store; the next uses the same pair again. */
  protected def closedIn(store: StateStore): Iterator[UnsafeRowPair] = {
    val isClosed = watermarkPredicateForKeysForEviction.get
    store.iterator().filter(pair => isClosed.eval(pair.key))
  }

  @transient private lazy val removedRows = longMetric("numRemovedStateRows")

  protected def remove(store: StateStore, key: UnsafeRow): Unit = {
    store.remove(key)
    removedRows += 1
  }

  /** These rows; after the last `atEnd`, with the milliseconds they took, and the commit. */
  protected def thenCommit(store: StateStore, rows: Iterator[InternalRow])(
      atEnd: Long => Unit): Iterator[InternalRow] = new NextIterator[InternalRow] {
    private val started = System.nanoTime()

    override protected def getNext(): InternalRow = if (rows.hasNext) {
      rows.next()
    } else {
      finished = true
      null
    }

    override protected def close(): Unit = {
      atEnd(NANOSECONDS.toMillis(System.nanoTime() - started))
      longMetric("commitTimeMs") += timeTakenMs(store.commit())
      setStoreMetrics(store)
      setOperatorMetrics()
    }
  }
}
