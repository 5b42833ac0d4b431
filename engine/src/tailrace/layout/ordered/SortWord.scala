package tailrace.layout.ordered

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

/**
 * The first eight bytes by which two keys are told apart without looking at the keys themselves.
 *
 * Invariant: keys are ordered by (word, unsigned), then by their bytes. Where the order of the
 * bytes has a meaning (ranges), the word is monotone in them. Where only neighbourhood has one
 * (a key's timestamps), the word is a hash of the rest: equal for all keys of the group, and spread
 * evenly, which the leading bytes of a Spark row are not.
 */
sealed abstract class SortWord(val code: Byte, val parameter: Int) {
  /** The word of a whole key. */
  def ofKey(base: AnyRef, offset: Long, length: Int): Long

  /** The word at which the keys with this prefix begin. */
  def ofPrefix(base: AnyRef, offset: Long, length: Int): Long
}

object SortWord {
  private val Seed = 0x776f7264L

  /** Keys `skipped bytes, the same in all keys of the family; ordered bytes ...`. */
  final case class Skipping(skipped: Int) extends SortWord(1, skipped) {
    override def ofKey(base: AnyRef, offset: Long, length: Int): Long =
      leadingBytes(base, offset + skipped, length - skipped)
    override def ofPrefix(base: AnyRef, offset: Long, length: Int): Long =
      ofKey(base, offset, length)
  }

  /** Keys `prefix timestamp(8 bytes)`: grouped by the prefix, ordered by time in the group. */
  case object BeforeTimestamp extends SortWord(2, 0) {
    override def ofKey(base: AnyRef, offset: Long, length: Int): Long =
      XXH64.hashUnsafeBytes(base, offset, length - 8, Seed)
    override def ofPrefix(base: AnyRef, offset: Long, length: Int): Long =
      XXH64.hashUnsafeBytes(base, offset, length, Seed)
  }

  def apply(code: Byte, parameter: Int): SortWord = code match {
    case 1 => Skipping(parameter)
    case 2 => BeforeTimestamp
  }

  private def leadingBytes(base: AnyRef, offset: Long, length: Int): Long = {
    if (length >= 8) {
      java.lang.Long.reverseBytes(Platform.getLong(base, offset))
    } else {
      var word = 0L
      var index = 0
      while (index < length) {
        word |= (Platform.getByte(base, offset + index) & 0xffL) << (56 - 8 * index)
        index += 1
      }
      word
    }
  }
}
