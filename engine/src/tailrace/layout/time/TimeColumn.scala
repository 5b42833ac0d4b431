package tailrace.layout.time

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import tailrace.layout.Record

/**
 * Where the bytes of a record tell when it falls due: a column of the key's row or of the value's,
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

  /** The record's time, or [[TimeColumn.Never]]. */
  def of(record: Long): Long =
    inRow(if (inKey) Record.keyAddress(record) else Record.valueAddress(record))

  private def inRow(row: Long): Long =
    if (isNull(row, ordinal)) {
      TimeColumn.Never
    } else {
      val word = Platform.getLong(null, row + fixed + ordinal * 8L)
      val time = if (fields == 0) word else inStruct(row + (word >>> 32))
      if (time == never) TimeColumn.Never else time
    }

  private def inStruct(struct: Long): Long =
    if (isNull(struct, field)) TimeColumn.Never
    else Platform.getLong(null, struct + fixedInside + field * 8L)

  private def isNull(row: Long, column: Int): Boolean =
    (Platform.getLong(null, row + (column >> 6) * 8L) & (1L << (column & 63))) != 0L
}

object TimeColumn {
  /** Later than every watermark. */
  val Never: Long = Long.MaxValue

  /** Buckets of 2^20 microseconds, 1.05 s. */
  val Micros = 20

  /** Buckets of 2^10 milliseconds, 1.02 s. */
  val Millis = 10
}
