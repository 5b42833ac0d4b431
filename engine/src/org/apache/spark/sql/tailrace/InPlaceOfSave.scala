package org.apache.spark.sql.tailrace

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.WidenStatefulOpNullability
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.NextIterator

/**
 * An operator of ours in the place of Spark's `StateStoreSaveExec`: what is the same whatever it
 * keeps for a key. It has the place's state, watermarks and metrics.
 */
trait InPlaceOfSave extends UnaryExecNode with StateStoreWriter with WatermarkSupport {
  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    eventTimeWatermarkForEviction.exists(newInputWatermark > _)

  /** Spark has validated the operator that this one was put in the place of. */
  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil

  protected def schemaOf(columns: Seq[Attribute]): StructType =
    WidenStatefulOpNullability.widenStateSchema(StructType(columns.map(column =>
      StructField(column.name, column.dataType, column.nullable, column.metadata))))

  /** The closed keys. Whoever takes one removes it; the pair is used again by the next. */
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
