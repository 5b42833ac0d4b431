package tailrace.cold

/**
 * Where something is that has left memory: a word that stands in the place of an address.
 *
 * {{{ reference := 1(1 bit) size / 8 (21 bits) segment(20 bits) offset / 8 (22 bits) }}}
 *
 * Addresses have a top bit of 0, so that one comparison tells them apart. With the size in it,
 * something that is cold can be given up without reading it. A reference is never given twice.
 */
object ColdRef {
  private val OffsetBits = 22
  private val SegmentBits = 20

  /** What is larger stays in memory. */
  val LargestSize: Long = (1L << 24) - 8

  val LastSegment: Int = (1 << SegmentBits) - 1

  def apply(segment: Int, offset: Long, size: Long): Long =
    Long.MinValue | (size >> 3) << (OffsetBits + SegmentBits) |
      segment.toLong << OffsetBits | offset >> 3

  def isCold(word: Long): Boolean = word < 0L

  def size(ref: Long): Int = ((ref & Long.MaxValue) >>> (OffsetBits + SegmentBits)).toInt << 3

  def segment(ref: Long): Int = (ref >>> OffsetBits).toInt & LastSegment

  def offset(ref: Long): Long = (ref & ((1L << OffsetBits) - 1)) << 3
}
