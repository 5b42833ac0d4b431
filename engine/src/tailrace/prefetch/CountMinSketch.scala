package tailrace.prefetch

/**
 * Problem: a hint costs a message and a look into the owner's table; of a key that comes all the time
 * it gains nothing, because its record is in memory anyway.
 *
 * Answer: the frequency filter of Keyed Prefetching (IV-B), a count-min sketch with saturating
 * counters. A key is hot if all its counters are at the threshold. After every `agesAfter` keys each
 * counter is halved, so that keys that were hot once are forgotten.
 *
 * Threads: the tasks of an executor share a sketch without a lock. A counter that misses an increment
 * makes a hint too many.
 *
 * @param threshold keys that were counted more often are hot
 */
final class CountMinSketch(threshold: Int, agesAfter: Int = CountMinSketch.AgesAfter) {
  import CountMinSketch._

  private val counters = new Array[Byte](Rows * Width)
  @volatile private var left = agesAfter

  /** Counts the key of this hash once more; whether it is hot. */
  def isHot(hash: Int): Boolean = {
    var smallest = Largest
    var row = 0
    var mixed = hash
    while (row < Rows) {
      mixed = mix(mixed)
      val at = row * Width + (mixed >>> WidthShift)
      val count = counters(at) & 0xff
      if (count < Largest) counters(at) = (count + 1).toByte
      if (count < smallest) smallest = count
      row += 1
    }
    left -= 1
    if (left <= 0) age()
    smallest >= threshold
  }

  private def age(): Unit = {
    left = agesAfter
    var at = 0
    while (at < counters.length) {
      counters(at) = ((counters(at) & 0xff) >> 1).toByte
      at += 1
    }
  }

  /** Bytes of memory. */
  def size: Int = counters.length
}

object CountMinSketch {
  private val Rows = 4
  private val Width = 1 << 13
  private val WidthShift = 32 - 13
  /** A threshold above it would never be reached. */
  val Largest = 255
  val DefaultThreshold = 24
  val AgesAfter: Int = 10 * Width

  /** Another hash of a hash (the finalizer of MurmurHash3). */
  private def mix(hash: Int): Int = {
    var mixed = hash + 0x9e3779b9
    mixed = (mixed ^ (mixed >>> 16)) * 0x85ebca6b
    mixed = (mixed ^ (mixed >>> 13)) * 0xc2b2ae35
    mixed ^ (mixed >>> 16)
  }
}
