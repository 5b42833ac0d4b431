package tailrace.cold

/** Some references, as an array of their words: an `Array[ColdRef]` would have an object of each. */
final class ColdRefs(val raw: Array[Long]) extends AnyVal {
  def length: Int = raw.length

  def apply(index: Int): ColdRef = new ColdRef(raw(index))

  /** Of all entries together. */
  def bytes: Long = {
    var total = 0L
    raw.foreach(word => total += new ColdRef(word).size)
    total
  }

  def filter(test: RefTest): ColdRefs = new ColdRefs(raw.filter(word => test(new ColdRef(word))))

  def inOrderOfTheDisk: ColdRefs = new ColdRefs(raw.sortBy(_ & ColdRef.PlaceMask))

  /**
   * Of references in the order of the disk: those from `first` on that one read gives, because no
   * more than `gap` bytes lie between them.
   */
  def rangeAt(first: Int, gap: Long, most: Long): ColdRefs.Range = {
    val segment = apply(first).segment
    val from = apply(first).offset
    var to = from + apply(first).size
    var until = first + 1
    while (until < length && apply(until).segment == segment &&
        apply(until).offset - to <= gap && to - from <= most) {
      to = apply(until).offset + apply(until).size
      until += 1
    }
    ColdRefs.Range(segment, from, (to - from).toInt, until)
  }
}

object ColdRefs {
  /** A part of a segment, with all references before the one at `until`. */
  final case class Range(segment: Int, from: Long, size: Int, until: Int)
}
