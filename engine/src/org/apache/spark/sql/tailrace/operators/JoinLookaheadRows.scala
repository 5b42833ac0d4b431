package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection

import tailrace.spark.ExpectedJoin

/**
 * The rows of one side of a join: their keys, and then their rows of state, are expected (see
 * [[JoinLookaheadExec]]).
 *
 * @param open     of the stores that the task has opened; it has by the time the first row is asked for
 * @param onDemand only of the rows at hand, and none before those are used up
 */
private[operators] final class JoinLookaheadRows(
    rows: Iterator[InternalRow],
    open: () => Option[ExpectedJoin],
    newKeys: () => UnsafeProjection,
    time: RowTime,
    late: LateRows,
    onDemand: Boolean)
  extends RowsAhead(rows, time,
    if (onDemand) DemandRows.Group else JoinLookaheadRows.Most, overlaps = !onDemand) {

  private lazy val expected = {
    val found = open().orNull
    if (found != null) found.began()
    found
  }
  private lazy val keyOf = newKeys()

  override protected def isOfUse: Boolean = expected != null && expected.areOfUse

  override protected def hasRoom: Boolean = expected.haveRoom

  override protected def expect(row: InternalRow, time: Long, ahead: Int): Unit =
    if (!late.has(time)) expected.add(keyOf(row), time, ahead)

  override protected def fetch(fresh: java.util.List[InternalRow]): Unit = {
    expected.fetch()
    var ahead = 0
    fresh.forEach { row =>
      val at = time.of(row)
      if (!late.has(at)) expected.follow(keyOf(row), at, ahead)
      ahead += 1
    }
    expected.fetchRows()
  }

  override protected def moveTo(time: Long): Unit = if (expected != null) expected.moveTo(time)
}

private object JoinLookaheadRows {
  /** A quarter of what other operators take: a key may have many rows. */
  val Most: Int = RowsAhead.Most / 4
}
