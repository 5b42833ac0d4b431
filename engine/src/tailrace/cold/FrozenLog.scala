package tailrace.cold

import java.util.BitSet

/**
 * Problem: a snapshot shows the records that were spilled when its version was frozen. A list of
 * references would take eight bytes a key, and a store that spills is short of memory.
 *
 * Answer: the segments of the log as they were at that moment: how long each was, and the bits that
 * say which of its entries were dead (one for every 32 bytes). The snapshot reads them from the first
 * segment to the last, in the order of the disk.
 *
 * Invariant: an entry is shown if, and only if, it was in its table when the version was frozen.
 * Entries that were written and not yet installed are behind a segment's `installed` length. The log
 * is pinned as long as this is read.
 */
final class FrozenLog private[cold] (log: ColdLog, segments: Seq[FrozenLog.Frozen]) {

  /** For entries that are to be put into another order. To be closed. */
  def sorted(hashOf: EntryHash): SortedEntries =
    new SortedEntries(log, log.storage.sortBuffer, hashOf)

  /** Every entry, records and values of lists alike; `atSegment` is called before each segment. */
  def foreach(atSegment: () => Unit)(visit: ColdEntry => Unit): Unit = segments.foreach { each =>
    atSegment()
    log.readLiving(each.segment, each.length, each.dead).foreach((_, entry) => visit(entry))
  }
}

private[cold] object FrozenLog {
  final case class Frozen(segment: ColdSegment, length: Long, dead: BitSet)
}
