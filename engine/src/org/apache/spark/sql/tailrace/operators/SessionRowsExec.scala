package org.apache.spark.sql.tailrace.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._

import tailrace.spark.TailraceStateStore

/**
 * Keeps the rows of each session as they come, and gives them out, session by session, when the
 * session ends. An aggregate that needs all rows is computed from them (RFC 8).
 *
 * Problem: sessions grow together, and rows that have been written would have to move.
 * Answer: rows never move. They are in lists with a number; a session names its lists (see
 * [[OpenSessions]]), and takes over those of the sessions that it swallows.
 *
 * @param keyExpressions    the grouping columns without the session
 * @param sessionExpression of a row: from its time to its time and the gap
 * @param rowExpressions    the other columns that the aggregates need
 * @param triggerTime       when the session of a row is expected to be read, if a hint says so;
 *                          otherwise it is the session's end
 * @param child             sorted by key and session
 *
 * Invariant: rows of one session come out next to each other, and each row once.
 */
case class SessionRowsExec(
    keyExpressions: Seq[Attribute],
    sessionExpression: Attribute,
    rowExpressions: Seq[Attribute],
    triggerTime: Option[Attribute],
    stateInfo: Option[StatefulOperatorStateInfo],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan)
  extends TailraceSave {
  import SessionRowsExec._

  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq((keyExpressions :+ sessionExpression).map(SortOrder(_, Ascending)))

  override def output: Seq[Attribute] = keyExpressions ++ (sessionExpression +: rowExpressions)

  override def shortName: String = "tailraceSessionRows"

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // forces their making on the driver
    val keySchema = OpenSessions.keySchema(schemaOf(keyExpressions))
    val rowSchema = schemaOf(rowExpressions)
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, keySchema, OpenSessions.valueSchema,
      PrefixKeyScanStateEncoderSpec(keySchema, keyExpressions.length), session.sessionState,
      Some(session.streams.stateStoreCoordinator), useColumnFamilies = true) { (store, rows) =>
      store.createColFamilyIfAbsent(RowsFamily, keySchema, rowSchema,
        NoPrefixKeyStateEncoderSpec(keySchema), useMultipleValuesPerKey = true, isInternal = true)
      process(store, new OpenSessions(store, schemaOf(keyExpressions)), rows)
    }
  }

  private def process(
      store: StateStore, sessions: OpenSessions,
      rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    longMetric("allUpdatesTimeMs") += timeTakenMs(add(store, sessions, timely(rows)))
    longMetric("numUpdatedStateRows") += sessions.updated
    longMetric("numRemovedStateRows") += sessions.swallowed
    thenCommit(store, rowsOfEnded(store, sessions))(longMetric("allRemovalsTimeMs") += _)
  }

  private def add(
      store: StateStore, sessions: OpenSessions, rows: Iterator[InternalRow]): Unit = {
    val keyOf = UnsafeProjection.create(keyExpressions, child.output)
    val sessionOf = UnsafeProjection.create(Seq(sessionExpression), child.output)
    val rowOf = UnsafeProjection.create(rowExpressions, child.output)
    val dueOf = triggerTime.map(time => UnsafeProjection.create(Seq(time), child.output))
    val lists = store.asInstanceOf[TailraceStateStore]
    rows.foreach { row =>
      val time = sessionOf(row).getStruct(0, 2)
      sessions.goTo(keyOf(row))
      val list = sessions.listFor(time.getLong(0), time.getLong(1))
      val hinted = dueOf.map(_(row)).filterNot(_.isNullAt(0)).map(_.getLong(0))
      lists.mergeUntil(list, rowOf(row), hinted.getOrElse(sessions.currentEnd), RowsFamily)
    }
    sessions.save()
  }

  /** Session by session; removed rows stay readable until the task is over. */
  private def rowsOfEnded(store: StateStore, sessions: OpenSessions): Iterator[InternalRow] = {
    val shown = longMetric("numOutputRows")
    val ended = eventTimeWatermarkForEviction.fold(Long.MinValue)(_ * 1000)
    val joined = new JoinedRow
    store.iterator().filter(pair => OpenSessions.endOf(pair.value) <= ended).flatMap { pair =>
      val head = sessions.keyAndSession(pair)
      val lists = sessions.listsOf(pair)
      remove(store, pair.key.copy())
      shown += 1
      lists.flatMap { list =>
        val values = store.valuesIterator(list, RowsFamily)
        store.remove(list, RowsFamily)
        values.map(joined(head, _))
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SessionRowsExec =
    copy(child = newChild)
}

object SessionRowsExec {
  val RowsFamily = "rows"
}
