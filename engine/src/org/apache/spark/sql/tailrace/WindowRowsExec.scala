package org.apache.spark.sql.tailrace

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.hadoop.conf.Configuration
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.NextIterator

import tailrace.spark.TailraceStateStore

/**
 * Keeps the rows of each window as they come, and gives them out, key by key, when the window
 * closes: what an aggregate that needs all its rows is computed from (RFC 6).
 *
 * @param keyExpressions  the grouping columns, with the window
 * @param rowExpressions  the other columns that the aggregates need
 *
 * Invariant: rows with equal keys come out next to each other, and each row once.
 */
case class WindowRowsExec(
    keyExpressions: Seq[Attribute],
    rowExpressions: Seq[Attribute],
    stateInfo: Option[StatefulOperatorStateInfo],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan)
  extends UnaryExecNode with StateStoreWriter with WatermarkSupport {

  override def output: Seq[Attribute] = keyExpressions ++ rowExpressions

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def shortName: String = "tailraceWindowRows"

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    eventTimeWatermarkForEviction.exists(newInputWatermark > _)

  /** Spark has validated the operator that this one was put in the place of. */
  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // forces their making on the driver
    val keySchema = schemaOf(keyExpressions)
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, keySchema, schemaOf(rowExpressions),
      NoPrefixKeyStateEncoderSpec(keySchema), session.sessionState,
      Some(session.streams.stateStoreCoordinator),
      useColumnFamilies = true, useMultipleValuesPerKey = true)(process(_, _))
  }

  private def schemaOf(columns: Seq[Attribute]): StructType =
    StructType(columns.map(column => StructField(column.name, column.dataType)))

  private def process(store: StateStore, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val started = System.nanoTime()
    add(store, applyRemovingRowsOlderThanWatermark(rows, watermarkPredicateForDataForLateEvents.get))
    longMetric("numUpdatedStateRows") += store.asInstanceOf[TailraceStateStore].keysAppendedTo
    longMetric("allUpdatesTimeMs") += NANOSECONDS.toMillis(System.nanoTime() - started)
    closed(store)
  }

  private def add(store: StateStore, rows: Iterator[InternalRow]): Unit = {
    val keyOf = UnsafeProjection.create(keyExpressions, child.output)
    val rowOf = UnsafeProjection.create(rowExpressions, child.output)
    rows.foreach(row => store.merge(keyOf(row), rowOf(row)))
  }

  /** The rows of closed windows; a window is removed once its last row was taken. */
  private def closed(store: StateStore): Iterator[InternalRow] = new NextIterator[InternalRow] {
    private val started = System.nanoTime()
    private val isClosed = watermarkPredicateForKeysForEviction.get
    private val candidates = store.iterator()
    private val removed = longMetric("numRemovedStateRows")
    private val shown = longMetric("numOutputRows")
    private val joined = new JoinedRow
    private var values: Iterator[UnsafeRow] = Iterator.empty
    private var key: UnsafeRow = _

    override protected def getNext(): InternalRow = {
      while (!values.hasNext && nextKey()) {}
      if (values.hasNext) {
        joined(key, values.next())
      } else {
        finished = true
        null
      }
    }

    private def nextKey(): Boolean = {
      while (candidates.hasNext) {
        val candidate = candidates.next().key
        if (isClosed.eval(candidate)) {
          key = candidate.copy()
          values = store.valuesIterator(key)
          store.remove(key)
          removed += 1
          shown += 1
          return true
        }
      }
      false
    }

    override protected def close(): Unit = {
      longMetric("allRemovalsTimeMs") += NANOSECONDS.toMillis(System.nanoTime() - started)
      longMetric("commitTimeMs") += timeTakenMs(store.commit())
      setStoreMetrics(store)
      setOperatorMetrics()
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): WindowRowsExec =
    copy(child = newChild)
}
