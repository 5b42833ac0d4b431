package org.apache.spark.sql.tailrace.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import tailrace.prefetch.HintController.Route
import tailrace.spark.{ExpectedKeys, HintSender}

/** The rows that pass a [[HintExec]] in one task. */
private[operators] final class HintRows(
    rows: Iterator[InternalRow], target: HintTarget, routes: Option[Array[Route]],
    columns: Seq[Attribute], partition: Int)
  extends Iterator[InternalRow] {

  private val hints: HintRows.Hints = routes match {
    case Some(_) if target.inTask => new OwnStore
    case Some(owners) => new OtherTasks(owners)
    case None => HintRows.Nothing
  }
  private val time = RowTime.in(columns)
  private var isOver = false

  override def hasNext: Boolean = {
    val goesOn = rows.hasNext
    if (!goesOn && !isOver) {
      isOver = true
      hints.end()
      HintSender.passed(target.run, target.operator, target.version, target.level)
    }
    goesOn
  }

  override def next(): InternalRow = {
    val row = rows.next()
    if (!target.late.has(time.of(row))) hints.add(row)
    row
  }

  /** To the executors that own the partitions. */
  private final class OtherTasks(owners: Array[Route]) extends HintRows.Hints {
    private val keyOf = UnsafeProjection.create(target.keys, columns)
    private val partitionOf = UnsafeProjection.create(Seq(target.partition), columns)
    private val sender = new HintSender(target.run, target.root, target.operator, target.version,
      target.level, target.threshold, owners)

    override def add(row: InternalRow): Unit =
      if (sender.isWanted(keyOf(row))) sender.add(partitionOf(row).getInt(0))

    override def end(): Unit = sender.end()
  }

  /** The operator's task has its store open: no message is needed. */
  private final class OwnStore extends HintRows.Hints {
    private val keyOf = UnsafeProjection.create(target.keys, columns)
    private val expected = ExpectedKeys.in(
      target.run, StateStoreId(target.root, target.operator, partition)).orNull
    private var count = 0

    override def add(row: InternalRow): Unit = if (expected != null && expected.areOfUse) {
      expected.add(keyOf(row), time = time.of(row), ahead = count)
      count += 1
      if (count % RowsAhead.Most == 0) expected.fetch()
    }

    override def end(): Unit = if (count > 0) expected.fetch()
  }
}

private object HintRows {
  trait Hints {
    def add(row: InternalRow): Unit
    def end(): Unit
  }

  /** Of a marker. */
  object Nothing extends Hints {
    override def add(row: InternalRow): Unit = {}
    override def end(): Unit = {}
  }
}
