package tailrace.layout.time

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import tailrace.cold.ColdEntry
import tailrace.layout.Record

/**
 * Where the bytes of a record tell when it expires: a column of the key's row or of the value's,
 * or a field of a struct in that column, such as the end of a window.
 *
 * @param inKey    in the key; otherwise in the value
 * @param columns  how many columns that row has
 * @param ordinal  which of them
 * @param fields   how many fields the struct in it has, or 0 where the column is the time itself
 * @param field    which of them
 * @param never    the value that stands for no time, besides null
 * @param width    bits of a time that one bucket of a [[TimeIndex]] covers at first: about a second
 */
final case class TimeColumn(
    inKey: Boolean, columns: Int, ordinal: Int, fields: Int, field: Int, never: Long, width: Int) {
  private val fixed = UnsafeRow.calculateBitSetWidthInBytes(columns)
  private val fixedInside = UnsafeRow.calculateBitSetWidthInBytes(fields)

  /** Not in a column: the list itself says when it is expected to be read. */
  private val estimated = columns == 0

  /** The record's time, or [[TimeColumn.Never]]. */
  def of(record: Record): Long =
    if (estimated) record.listDue
    else inRow(null, if (inKey) record.keyAddress else record.valueAddress)

  /** The time of a record that is not in memory. */
  def of(entry: ColdEntry): Long = inRow(entry.bytes, if (inKey) entry.key else entry.payload)

  private def inRow(base: AnyRef, row: Long): Long =
    if (isNull(base, row, ordinal)) {
      TimeColumn.Never
    } else {
      val word = Platform.getLong(base, row + fixed + ordinal * 8L)
      val time = if (fields == 0) word else inStruct(base, row + (word >>> 32))
      if (time == never) TimeColumn.Never else time
    }

  private def inStruct(base: AnyRef, struct: Long): Long =
    if (isNull(base, struct, field)) TimeColumn.Never
    else Platform.getLong(base, struct + fixedInside + field * 8L)

  private def isNull(base: AnyRef, row: Long, column: Int): Boolean =
    (Platform.getLong(base, row + (column >> 6) * 8L) & (1L << (column & 63))) != 0L
}

object TimeColumn {
  /** Later than every watermark. */
  val Never: Long = Long.MaxValue

  /** Of lists whose time the operator estimates, in microseconds. */
  val Estimated: TimeColumn =
    TimeColumn(inKey = false, columns = 0, 0, fields = 0, 0, never = Never, width = 20)

  /** Buckets of 2^20 microseconds, 1.05 s. */
  val Micros = 20

  /** Buckets of 2^10 milliseconds, 1.02 s. */
  val Millis = 10
}
