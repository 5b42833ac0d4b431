package tailrace.layout.hash

import tailrace.cold.{ColdSlots, SlotEntries}
import tailrace.layout.{ColdRecords, SlotVictims}

/**
 * The references of one segment on their way to a file. They are copied when they are picked: the
 * owner goes on with the segment while an I/O thread reads the segment's present file, sorts and
 * writes.
 *
 * Invariant: an entry of the new file counts only while its reference is live. So references that are
 * given up or moved meanwhile do no harm, and neither does one that is in the file and, because it
 * came later, in a slot.
 */
private[hash] final class SpilledSlots(segment: Segment, cold: ColdRecords) extends SlotVictims {
  private val before: ColdSlots = segment.slotFile
  private val picked = new SlotEntries(segment.coldSlots)
  segment.copyCold(picked)

  override def collect(): SlotEntries = {
    val all = new SlotEntries(picked.size + (if (before == null) 0 else before.size))
    var at = 0
    while (at < picked.size) {
      all.add(picked.hash(at), picked.ref(at))
      at += 1
    }
    if (before != null) {
      before.foreach(segment.lowest, segment.highest) { (hash, ref) =>
        if (cold.isLive(ref)) all.add(hash, ref)
      }
    }
    all.sorted
  }

  override def install(written: SlotEntries, slots: ColdSlots): Boolean = {
    val isAsBefore = !segment.isReleased && (segment.slotFile eq before)
    if (isAsBefore) segment.replaceBase(written, slots)
    isAsBefore
  }
}
