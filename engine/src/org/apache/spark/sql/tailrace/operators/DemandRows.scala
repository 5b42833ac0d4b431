package org.apache.spark.sql.tailrace.operators

import java.util.{ArrayDeque, HashSet}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection

import tailrace.spark.ExpectedKeys

/**
 * Asynchronous I/O, the rival of look-ahead (`prefetch="demand"`): the rows at hand, a group at a
 * time. The records of the group that are not in memory are asked for together. Rows whose record is
 * in memory go on, those of some later groups, too; then the others, in their order.
 *
 * Invariant: the same rows; rows with one key stay in their order, because a row waits if an earlier
 * one with its key does. With `keepsOrder` all rows do: for operators that want them sorted.
 */
private[operators] final class DemandRows(
    rows: Iterator[InternalRow],
    open: () => Option[ExpectedKeys],
    newKeys: () => UnsafeProjection,
    time: RowTime,
    late: LateRows,
    keepsOrder: Boolean) extends Iterator[InternalRow] {
  import DemandRows._

  private var ready = new ArrayDeque[InternalRow]
  private var waiting = new ArrayDeque[InternalRow]
  private val waitingKeys = new HashSet[Integer] // their hashes
  private var untilLook = 0
  private lazy val expected = LookaheadRows.opened(open)
  private lazy val keyOf = newKeys()

  override def hasNext: Boolean = !ready.isEmpty || !waiting.isEmpty || rows.hasNext

  override def next(): InternalRow = {
    if (ready.isEmpty) look()
    if (ready.isEmpty) stopWaiting()
    val row = if (ready.isEmpty) rows.next() else ready.poll()
    if (time.isKnown && expected != null) expected.moveTo(time.of(row))
    row
  }

  private def look(): Unit = {
    untilLook -= 1
    if (untilLook < 0) {
      untilLook = RowsAhead.LookEvery
      if (expected != null && expected.areOfUse) {
        while (ready.isEmpty && waiting.size < MostWaiting && expected.haveRoom && rows.hasNext) {
          takeGroup()
        }
        untilLook = 0
      }
    }
  }

  private def takeGroup(): Unit = {
    var count = 0
    while (count < Group && rows.hasNext) {
      val row = rows.next().copy() // the child may use its row again
      val key = keyOf(row)
      val at = time.of(row)
      val isCold = !late.has(at) && expected.add(key, time = at, ahead = count)
      if (!keepsOrder && (isCold || waitingKeys.contains(key.hashCode))) {
        waitingKeys.add(key.hashCode)
        waiting.add(row)
      } else {
        ready.add(row)
      }
      count += 1
    }
    expected.fetch()
  }

  /** No other row can go on. Look-ups wait for records that have not arrived. */
  private def stopWaiting(): Unit = {
    val emptied = ready
    ready = waiting
    waiting = emptied
    waitingKeys.clear()
  }
}

private[operators] object DemandRows {
  /** Rows that are at hand together. */
  val Group: Int = 1 << 10
  private val MostWaiting = 4 * Group
}
