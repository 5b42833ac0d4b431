package org.apache.spark.sql.tailrace.operators

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection

import tailrace.spark.ExpectedJoin

/**
 * The rows of one side of a join, some of which are taken before they are asked for, so that their
 * keys, and then their rows of state, can be expected (see [[JoinLookaheadExec]]).
 *
 * @param open of the stores that the task has opened; it has by the time the first row is asked for
 */
private[operators] final class JoinLookaheadRows(
    rows: Iterator[InternalRow],
    open: () => Option[ExpectedJoin],
    newKeys: () => UnsafeProjection) extends Iterator[InternalRow] {
  import LookaheadRows.{LookEvery, MostBytes}
  import JoinLookaheadRows.Most

  private val taken = new ArrayDeque[InternalRow]
  private var takenBytes = 0L
  private var refillAt = 0
  private var untilLook = 0
  private lazy val expected = {
    val found = open().orNull
    if (found != null) found.began()
    found
  }
  private lazy val keyOf = newKeys()

  override def hasNext: Boolean = !taken.isEmpty || rows.hasNext

  override def next(): InternalRow = {
    if (taken.size <= refillAt) look()
    val row = taken.poll()
    if (row == null) {
      rows.next()
    } else {
      takenBytes -= LookaheadRows.sizeOf(row)
      row
    }
  }

  /** From time to time: while all state is in memory there is nothing to do. */
  private def look(): Unit = {
    untilLook -= 1
    if (untilLook < 0) {
      if (expected != null && expected.areOfUse) takeAhead()
      untilLook = LookEvery
    }
  }

  private def takeAhead(): Unit = {
    val fresh = new java.util.ArrayList[InternalRow]
    while (taken.size < Most && takenBytes < MostBytes && expected.haveRoom && rows.hasNext) {
      val row = rows.next().copy() // the child may use its row again
      taken.add(row)
      fresh.add(row)
      takenBytes += LookaheadRows.sizeOf(row)
      expected.add(keyOf(row))
    }
    expected.fetch()
    fresh.forEach(row => expected.follow(keyOf(row)))
    expected.fetchRows()
    // The second half is being read while the first is used.
    refillAt = taken.size / 2
  }
}

private object JoinLookaheadRows {
  /** A quarter of what other operators take: a key may have many rows. */
  val Most: Int = LookaheadRows.Most / 4
}
