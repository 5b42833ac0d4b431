package org.apache.spark.sql.tailrace.operators

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

import tailrace.spark.ExpectedKeys

/**
 * The rows of a task, some of which are taken before they are asked for, so that their keys can be
 * expected in the store (see [[LookaheadExec]]).
 *
 * @param open of the store that the task has opened; it has by the time the first row is asked for
 */
private[operators] final class LookaheadRows(
    rows: Iterator[InternalRow],
    open: () => Option[ExpectedKeys],
    newKeys: () => UnsafeProjection) extends Iterator[InternalRow] {
  import LookaheadRows._

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
      takenBytes -= sizeOf(row)
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
    while (taken.size < Most && takenBytes < MostBytes && expected.haveRoom && rows.hasNext) {
      val row = rows.next().copy() // the child may use its row again
      taken.add(row)
      takenBytes += sizeOf(row)
      expected.add(keyOf(row))
    }
    expected.fetch()
    // The second half is being read while the first is used.
    refillAt = taken.size / 2
  }
}

private object LookaheadRows {
  /**
   * Of rows that are taken ahead. Keys of many rows lie close to each other in the log: one read gives
   * several of them.
   */
  val Most: Int = 1 << 15
  val MostBytes: Long = 8L << 20
  val LookEvery = 64
  val UnknownSize = 256L

  def sizeOf(row: InternalRow): Long = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
    case _ => UnknownSize
  }
}
