package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.WidenStatefulOpNullability
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.OutputMode

import tailrace.spark.TailraceStateStore

/**
 * Merges the intermediate results of a batch into the state, each key with one look-up. Spark
 * does it with three operators, which read every key, aggregate old and new results in a
 * hash table of their own, and look every key up again to write it (RFC 7).
 *
 * The state is the same as with Spark's operators, byte for byte: a query may change between the two
 * from one run to the next.
 *
 * @param keyExpressions the grouping columns; the child's other columns are intermediate results
 * @param functions      the aggregates that merge them, in their order
 */
case class MergeStateExec(
    keyExpressions: Seq[Attribute],
    functions: Seq[DeclarativeAggregate],
    stateInfo: Option[StatefulOperatorStateInfo],
    outputMode: OutputMode,
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan)
  extends TailraceSave {

  private def bufferAttributes: Seq[Attribute] = child.output.drop(keyExpressions.length)

  override def output: Seq[Attribute] =
    WidenStatefulOpNullability.widenOutputForStatefulOp(child.output)

  override def shortName: String = StatefulOperatorsUtils.STATE_STORE_SAVE_EXEC_OP_NAME

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // forces their making on the driver
    val keySchema = schemaOf(keyExpressions)
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, keySchema, schemaOf(bufferAttributes), NoPrefixKeyStateEncoderSpec(keySchema),
      session.sessionState, Some(session.streams.stateStoreCoordinator)) { (store, rows) =>
      val merge = new Merge(store.asInstanceOf[TailraceStateStore])
      if (outputMode == OutputMode.Append()) shownWhenClosed(merge, timely(rows))
      else shownAtOnce(merge, timely(rows))
    }
  }

  /** One key after the other; rows that come out are used again by the next. */
  private final class Merge(val store: TailraceStateStore) {
    private val keyOf = UnsafeProjection.create(keyExpressions, child.output)
    private val buffersOf = UnsafeProjection.create(bufferAttributes, child.output)
    // Spark merges old results into new ones, in this order.
    private val merged = UnsafeProjection.create(
      functions.flatMap(_.mergeExpressions),
      functions.flatMap(_.aggBufferAttributes) ++ functions.flatMap(_.inputAggBufferAttributes))
    private val both = new JoinedRow
    private val joiner =
      GenerateUnsafeRowJoiner.create(schemaOf(keyExpressions), schemaOf(bufferAttributes))

    private val updated = longMetric("numUpdatedStateRows")
    private var key: UnsafeRow = _
    private var fresh: UnsafeRow = _
    private var buffers: UnsafeRow = _
    private val change = (before: UnsafeRow) =>
      if (before == null) fresh else merged(both(fresh, before))

    def add(row: InternalRow): Unit = {
      key = keyOf(row)
      fresh = buffersOf(row)
      buffers = store.update(key, change)
      updated += 1
    }

    /** The key that was added last, and its new intermediate results. */
    def last: UnsafeRow = joiner.join(key, buffers)

    def row(pair: UnsafeRowPair): UnsafeRow = joiner.join(pair.key, pair.value)
  }

  private def shownWhenClosed(merge: Merge, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    longMetric("allUpdatesTimeMs") += timeTakenMs(rows.foreach(merge.add))
    val shown = longMetric("numOutputRows")
    val closed = closedIn(merge.store).map { pair =>
      val row = merge.row(pair)
      remove(merge.store, pair.key)
      shown += 1
      row
    }
    thenCommit(merge.store, closed)(longMetric("allRemovalsTimeMs") += _)
  }

  private def shownAtOnce(merge: Merge, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val shown = longMetric("numOutputRows")
    val changed = rows.map { row =>
      merge.add(row)
      shown += 1
      merge.last
    }
    thenCommit(merge.store, changed) { millis =>
      longMetric("allUpdatesTimeMs") += millis
      longMetric("allRemovalsTimeMs") += timeTakenMs(evict(merge.store))
    }
  }

  private def evict(store: StateStore): Unit =
    if (watermarkPredicateForKeysForEviction.nonEmpty) {
      closedIn(store).foreach(pair => remove(store, pair.key))
    }

  override protected def withNewChildInternal(newChild: SparkPlan): MergeStateExec =
    copy(child = newChild)
}
