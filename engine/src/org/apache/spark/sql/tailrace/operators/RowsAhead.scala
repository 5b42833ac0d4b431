package org.apache.spark.sql.tailrace.operators

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The rows of a task, some of which are taken before they are asked for, so that their keys can be
 * expected in the stores. The stores learn the time of each row as the operator gets it.
 *
 * Invariant: the same rows in the same order.
 *
 * @param most     how many rows are taken ahead
 * @param overlaps whether the next ones are taken before those are used up
 */
private[operators] abstract class RowsAhead(
    rows: Iterator[InternalRow], time: RowTime, most: Int, overlaps: Boolean)
  extends Iterator[InternalRow] {
  import RowsAhead._

  private val taken = new ArrayDeque[InternalRow]
  private var takenBytes = 0L
  private var refillAt = 0
  private var untilLook = 0

  /** Whether it saves time to take rows ahead now. */
  protected def isOfUse: Boolean

  protected def hasRoom: Boolean

  /** The key of a row is expected, `ahead` rows from now. */
  protected def expect(row: InternalRow, time: Long, ahead: Int): Unit

  /** These rows were taken: has what is expected read. */
  protected def fetch(fresh: java.util.List[InternalRow]): Unit

  protected def moveTo(time: Long): Unit

  override def hasNext: Boolean = !taken.isEmpty || rows.hasNext

  override def next(): InternalRow = {
    if (taken.size <= refillAt) look()
    val first = taken.poll()
    if (first != null) takenBytes -= sizeOf(first)
    val row = if (first != null) first else rows.next()
    if (time.isKnown) moveTo(time.of(row))
    row
  }

  /** From time to time: while all state is in memory there is nothing to do. */
  private def look(): Unit = {
    untilLook -= 1
    if (untilLook < 0) {
      untilLook = LookEvery
      if (isOfUse) takeAhead()
    }
  }

  private def takeAhead(): Unit = {
    val fresh = new java.util.ArrayList[InternalRow]
    while (taken.size < most && takenBytes < MostBytes && hasRoom && rows.hasNext) {
      val row = rows.next().copy() // the child may use its row again
      expect(row, time.of(row), taken.size)
      taken.add(row)
      fresh.add(row)
      takenBytes += sizeOf(row)
    }
    fetch(fresh)
    if (overlaps) refillAt = taken.size / 2 // the second half is being read while the first is used
    else if (!fresh.isEmpty) untilLook = 0
  }
}

private[operators] object RowsAhead {
  /**
   * Of rows that are taken ahead. Keys of many rows lie close to each other in the log: one read gives
   * several of them.
   */
  val Most: Int = 1 << 15
  val MostBytes: Long = 8L << 20
  val LookEvery = 64
  private val UnknownSize = 256L

  def sizeOf(row: InternalRow): Long = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
    case _ => UnknownSize
  }
}
