package tailrace.cold

import java.util.BitSet

/**
 * A segment of the log: its file, and which of its entries are not needed any more, one bit for every
 * 32 bytes (an entry has as many).
 *
 * Invariant: the fields are guarded by the log's lock; the file is not touched under it.
 */
private[cold] final class ColdSegment(val id: Int, val file: SegmentFile) {
  var live = 0L
  var length = 0L
  /** The part of it whose entries are in their table, or were given up. */
  var installed = 0L
  var isSealed = false
  /** It was cleaned; entries that still live in it are in no table any more, but may be again. */
  var isCleaned = false
  private val dead = new BitSet

  def isDead(offset: Long): Boolean = dead.get((offset >> 5).toInt)

  def markDead(offset: Long): Unit = dead.set((offset >> 5).toInt)

  def deadEntries: BitSet = dead.clone().asInstanceOf[BitSet]
}
