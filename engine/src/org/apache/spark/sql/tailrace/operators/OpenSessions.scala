package org.apache.spark.sql.tailrace.operators

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.streaming.state.{StateStore, UnsafeRowPair}
import org.apache.spark.sql.types._

/**
 * The sessions that have not ended, and the lists that have their rows.
 *
 * A session is found by (key, start) and says when it ends and which lists belong to it. A list is
 * found by (key, number); its number is the start of the session it was begun for. A row that falls
 * into several sessions makes them one: the lists are named together, and nothing is copied.
 *
 * Invariants: the sessions of a key do not touch each other; a number names at most one list,
 * because a session that begins where a list's did would touch the session that has the list.
 */
private[tailrace] final class OpenSessions(store: StateStore, keys: StructType) {
  import OpenSessions._

  private val dataKeys = keys.fields.toSeq.zipWithIndex
    .map { case (field, ordinal) => BoundReference(ordinal, field.dataType, field.nullable) }
  private val withTime = UnsafeProjection.create((dataKeys :+ Literal(0L)).toSeq)
  private val withSession = UnsafeProjection.create(
    (dataKeys :+ BoundReference(keys.length + 1, SessionType, nullable = false)).toSeq)
  private val asValue = UnsafeProjection.create(valueSchema)

  private var key: UnsafeRow = null
  private val open = new ArrayBuffer[Session]
  private val stored = new ArrayBuffer[Long] // the starts that the store has for the key
  private var current: Session = null

  /** Rows of state, counted as Spark's operator does: all sessions of the keys that came. */
  var updated = 0L
  var swallowed = 0L

  /** The rows that follow have this key; equal keys come one after the other. */
  def goTo(next: UnsafeRow): Unit = if (key == null || key != next) {
    save()
    key = next.copy()
    store.prefixScan(key).foreach { pair =>
      val found = sessionIn(pair.value)
      open += found
      stored += found.start
    }
  }

  /** The key of the list for a row that makes [start, end] part of a session. */
  def listFor(start: Long, end: Long): UnsafeRow = {
    val touched = open.filter(each => each.start <= end && start <= each.end)
    current = touched.headOption.getOrElse {
      val begun = new Session(start, end, Array(start))
      begun.changed = true
      open += begun
      begun
    }
    current.cover(start, end)
    touched.drop(1).foreach { other =>
      current.swallow(other)
      open -= other
    }
    timed(key, current.lists(0))
  }

  /** When the session of the last row ends, as far as is known. */
  def currentEnd: Long = current.end

  /** Writes the key's changed sessions, and removes those that others have swallowed. */
  def save(): Unit = if (key != null) {
    stored.filterNot(start => open.exists(_.start == start)).foreach { start =>
      store.remove(timed(key, start))
      swallowed += 1
    }
    open.filter(_.changed).foreach(each => store.put(timed(key, each.start), asValue(each.row)))
    updated += open.length
    open.clear()
    stored.clear()
    key = null
  }

  /** The grouping columns of a stored session, and the session. */
  def keyAndSession(pair: UnsafeRowPair): UnsafeRow =
    withSession(new JoinedRow(pair.key, pair.value)).copy()

  /** The keys of the lists of a stored session. */
  def listsOf(pair: UnsafeRowPair): Iterator[UnsafeRow] = {
    val key = pair.key.copy()
    sessionIn(pair.value).lists.iterator.map(timed(key, _).copy())
  }

  /** @param key a row that begins with the grouping columns */
  private def timed(key: UnsafeRow, time: Long): UnsafeRow = {
    val row = withTime(key)
    row.setLong(keys.length, time)
    row
  }
}

object OpenSessions {
  private val SessionType = new StructType()
    .add("start", TimestampType, nullable = false).add("end", TimestampType, nullable = false)

  val valueSchema: StructType = new StructType()
    .add("session", SessionType, nullable = false)
    .add("lists", ArrayType(LongType, containsNull = false), nullable = false)

  def keySchema(keys: StructType): StructType = keys.add("start", TimestampType, nullable = false)

  def endOf(value: UnsafeRow): Long = value.getStruct(0, 2).getLong(1)

  private def sessionIn(value: UnsafeRow): Session = {
    val session = value.getStruct(0, 2)
    new Session(session.getLong(0), session.getLong(1), value.getArray(1).toLongArray())
  }

  private final class Session(var start: Long, var end: Long, var lists: Array[Long]) {
    var changed = false

    def cover(from: Long, to: Long): Unit = if (from < start || to > end) {
      start = math.min(start, from)
      end = math.max(end, to)
      changed = true
    }

    def swallow(other: Session): Unit = {
      cover(other.start, other.end)
      lists ++= other.lists
      changed = true
    }

    def row: GenericInternalRow = new GenericInternalRow(Array[Any](
      new GenericInternalRow(Array[Any](start, end)), ArrayData.toArrayData(lists)))
  }
}
