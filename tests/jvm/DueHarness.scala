/*
 * Problem: which records are due is bookkeeping beside the table, and must stay right through
 * updates, removals, batches that are rolled back or reverted and tables that are rewritten.
 * Answer: the real table with one family, in the hands of a test that knows which rows should be due.
 * Invariant: a row is named by its id and its time; everything else of it is filler.
 */
package org.apache.spark.sql.tailrace.testing

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import tailrace.cold.{ColdFolders, ColdRef, ColdStorage, SpillMode}
import tailrace.files.LocalRoot
import tailrace.layout.{Cursor, Record}
import tailrace.layout.time.TimeColumn
import tailrace.memory.Budget
import tailrace.spark.EngineRuntime
import tailrace.store.{FamilyKind, PlannedFamily, StateTable}

class DueHarness extends Operations {
  private val budget = new Budget(Budget.defaultLimit, poisons = true)
  private val folders = new ColdFolders
  private var table: StateTable = _
  private var shape: DueHarness.Shape = _

  override protected def execute(operation: JsonNode): JsonNode = {
    operation.path("op").asText() match {
      case "new" =>
        shape = new DueHarness.Shape(
          operation.path("in_key").asBoolean(), operation.path("window").asBoolean())
        val mode = if (operation.path("cold").asBoolean()) SpillMode.Always else SpillMode.Never
        table = new StateTable(
          budget, _ => PlannedFamily(isKnown = true, Some(shape.column)),
          ColdStorage.in(new LocalRoot(None), folders).copy(mode = mode),
          EngineRuntime.current.io, "a store")
        table.createFamily("rows", FamilyKind(None, false, false, "", ""))
        table.begin()
      case "put" =>
        val (key, value) = shape.rows(operation)
        family.put(table.memory, table.changes, key.getBaseObject, key.getBaseOffset,
          key.getSizeInBytes, value.getBaseObject, value.getBaseOffset, value.getSizeInBytes)
      case "remove" =>
        val key = shape.rows(operation)._1
        family.remove(table.changes, key.getBaseObject, key.getBaseOffset, key.getSizeInBytes)
      case "begin" => table.begin()
      case "apply" => table.apply(0L)
      case "rollback" => table.rollback()
      case "revert" => table.revert()
      case "close" => table.close()
      case "due" =>
        return shown(family.dueCursor(operation.path("up_to").asLong()).get)
      case "all" => return shown(family.layout.cursor())
      case "bytes" => return RowCodec.nodes.numberNode(table.reservedBytes)
      case "use_up_the_log" =>
        val next = table.coldLog.getClass.getDeclaredField("nextId")
        next.setAccessible(true)
        next.setInt(table.coldLog, ColdRef.LastSegment + 1)
      case "cold" => return RowCodec.nodes.numberNode(table.coldLog.liveBytes)
      case "budget" => return RowCodec.nodes.numberNode(budget.used)
    }
    RowCodec.nodes.nullNode()
  }

  private def family = table.family("rows").get

  private def shown(cursor: Cursor): JsonNode = {
    val found = RowCodec.nodes.arrayNode()
    var record = cursor.next()
    while (record.exists) {
      val pair = RowCodec.nodes.arrayNode()
      pair.add(shape.idOf(record))
      shape.timeOf(record).fold(pair.addNull())(pair.add(_))
      found.add(pair)
      record = cursor.next()
    }
    found
  }
}

object DueHarness {
  /** A time of its own or a window's end, in the key or in the value. */
  private final class Shape(inKey: Boolean, window: Boolean) {
    private val time: DataType =
      if (window) new StructType().add("start", LongType).add("end", LongType) else LongType
    private val keySchema = new StructType().add("id", LongType)
    private val valueSchema = new StructType().add("filler", StringType)
    private val timed = (if (inKey) keySchema else valueSchema).add("time", time)
    private val toKey = UnsafeProjection.create(if (inKey) timed else keySchema)
    private val toValue = UnsafeProjection.create(if (inKey) valueSchema else timed)

    val column: TimeColumn = TimeColumn(
      inKey, columns = 2, ordinal = 1, fields = if (window) 2 else 0, field = if (window) 1 else 0,
      never = -1L, width = TimeColumn.Micros)

    def rows(operation: JsonNode): (UnsafeRow, UnsafeRow) = {
      val id = operation.path("id").asLong()
      val filler = UTF8String.fromString("x" * operation.path("filler").asInt(0))
      val at: Any =
        if (operation.path("time").isNull || operation.path("time").isMissingNode) null
        else if (window) InternalRow(0L, operation.path("time").asLong())
        else operation.path("time").asLong()
      if (inKey) (toKey(InternalRow(id, at)), toValue(InternalRow(filler)))
      else (toKey(InternalRow(id)), toValue(InternalRow(filler, at)))
    }

    def idOf(record: Record): Long = {
      val row = new UnsafeRow(if (inKey) 2 else 1)
      row.pointTo(null, record.keyAddress, record.keyLength)
      row.getLong(0)
    }

    def timeOf(record: Record): Option[Long] = {
      val row = new UnsafeRow(2)
      if (inKey) row.pointTo(null, record.keyAddress, record.keyLength)
      else row.pointTo(null, record.valueAddress, record.valueLength)
      if (row.isNullAt(1)) None
      else if (window) Some(row.getStruct(1, 2).getLong(1))
      else Some(row.getLong(1))
    }
  }
}
