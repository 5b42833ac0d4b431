package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._

import tailrace.spark.TailraceStateStore

/**
 * Keeps the rows of each window as they come, and gives them out, key by key, when the window
 * closes. An aggregate that needs all rows is computed from them (RFC 6).
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
  extends TailraceSave {

  override def output: Seq[Attribute] = keyExpressions ++ rowExpressions

  override def shortName: String = "tailraceWindowRows"

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // forces their making on the driver
    val keySchema = schemaOf(keyExpressions)
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, keySchema, schemaOf(rowExpressions),
      NoPrefixKeyStateEncoderSpec(keySchema), session.sessionState,
      Some(session.streams.stateStoreCoordinator),
      useColumnFamilies = true, useMultipleValuesPerKey = true) { (store, rows) =>
      process(store.asInstanceOf[TailraceStateStore], rows)
    }
  }

  private def process(
      store: TailraceStateStore, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    longMetric("allUpdatesTimeMs") += timeTakenMs(add(store, timely(rows)))
    longMetric("numUpdatedStateRows") += store.keysAppendedTo
    thenCommit(store, rowsOfClosed(store))(longMetric("allRemovalsTimeMs") += _)
  }

  private def add(store: StateStore, rows: Iterator[InternalRow]): Unit = {
    val keyOf = UnsafeProjection.create(keyExpressions, child.output)
    val rowOf = UnsafeProjection.create(rowExpressions, child.output)
    rows.foreach(row => store.merge(keyOf(row), rowOf(row)))
  }

  /**
   * Key by key; removed rows stay readable until the task is over. The closed windows are found
   * by their keys alone: a list that is not in memory is read once, when its rows are returned.
   */
  private def rowsOfClosed(store: TailraceStateStore): Iterator[InternalRow] = {
    val shown = longMetric("numOutputRows")
    val joined = new JoinedRow
    val isClosed = watermarkPredicateForKeysForEviction.get
    store.keys().filter(isClosed.eval(_)).flatMap { found =>
      val key = found.copy()
      val values = store.valuesIterator(key)
      remove(store, key)
      shown += 1
      values.map(joined(key, _))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): WindowRowsExec =
    copy(child = newChild)
}
