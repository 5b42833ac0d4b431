package tailrace.cold

/**
 * Where something is that was spilled: a word that stands in the place of an address.
 *
 * {{{ reference := 1(1 bit) size / 8 (21 bits) segment(23 bits) offset / 8 (19 bits) }}}
 *
 * Addresses have a top bit of 0, so that one comparison tells them apart. With the size in it,
 * something that is cold can be given up without reading it. A reference is never given twice.
 *
 * At run time it is the word itself, as long as it is not put into a collection, a tuple or a
 * function's type: many references are a [[ColdRefs]], and a function of one is a [[RefTest]], a
 * [[ColdReader]] or an [[EntryVisitor]].
 */
final class ColdRef(val raw: Long) extends AnyVal {
  import ColdRef._

  def size: Int = ((raw & Long.MaxValue) >>> (OffsetBits + SegmentBits)).toInt << 3

  def segment: Int = (raw >>> OffsetBits).toInt & LastSegment

  def offset: Long = (raw & ((1L << OffsetBits) - 1)) << 3
}

object ColdRef {
  private final val OffsetBits = 19
  private final val SegmentBits = 23

  /** A larger record stays in memory. */
  val LargestSize: Long = (1L << 24) - 8

  /** An entry begins within the first bytes of a segment. */
  val LargestOffset: Long = 8L << OffsetBits

  final val LastSegment = (1 << SegmentBits) - 1

  /** The bits that say where it is: in their order, references are in the order of the disk. */
  final val PlaceMask = (1L << (OffsetBits + SegmentBits)) - 1

  /** No reference yet. */
  def None: ColdRef = new ColdRef(0L)

  def apply(segment: Int, offset: Long, size: Long): ColdRef = new ColdRef(
    Long.MinValue | (size >> 3) << (OffsetBits + SegmentBits) |
      segment.toLong << OffsetBits | offset >> 3)
}

/** Says something of a reference. */
@FunctionalInterface
trait RefTest {
  def apply(ref: ColdRef): Boolean
}

@FunctionalInterface
trait RefVisitor {
  def apply(ref: ColdRef): Unit
}

/** Reads the entry that a reference names. */
@FunctionalInterface
trait ColdReader {
  def apply(ref: ColdRef): ColdEntry
}

/** Is shown entries of the log, each with its reference. */
@FunctionalInterface
trait EntryVisitor {
  def apply(ref: ColdRef, entry: ColdEntry): Unit
}
