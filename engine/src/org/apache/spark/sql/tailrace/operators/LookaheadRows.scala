package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection

import tailrace.spark.ExpectedKeys

/**
 * Rows that an operator looks up in its only store (see [[LookaheadExec]]).
 *
 * @param open of the store that the task has opened; it has by the time the first row is asked for
 * @param late of times: whether the operator drops the row without looking it up
 */
private[operators] final class LookaheadRows(
    rows: Iterator[InternalRow],
    open: () => Option[ExpectedKeys],
    newKeys: () => UnsafeProjection,
    time: RowTime,
    late: LateRows) extends RowsAhead(rows, time, RowsAhead.Most, overlaps = true) {

  private lazy val expected = LookaheadRows.opened(open)
  private lazy val keyOf = newKeys()

  override protected def isOfUse: Boolean = expected != null && expected.areOfUse

  override protected def hasRoom: Boolean = expected.haveRoom

  override protected def expect(row: InternalRow, time: Long, ahead: Int): Unit =
    if (!late.has(time)) expected.add(keyOf(row), time = time, ahead = ahead)

  override protected def fetch(fresh: java.util.List[InternalRow]): Unit = expected.fetch()

  override protected def moveTo(time: Long): Unit = if (expected != null) expected.moveTo(time)
}

private object LookaheadRows {
  def opened(open: () => Option[ExpectedKeys]): ExpectedKeys = {
    val found = open().orNull
    if (found != null) found.began()
    found
  }
}
