package tailrace.layout

import tailrace.cold.ColdRef

/**
 * The content of a slot of the hash table: a record, a reference to one that was spilled, or nothing.
 * Addresses have a top bit of 0, references one of 1 (see [[tailrace.cold.ColdRef]]), so that one
 * comparison tells them apart.
 *
 * Invariant: the caller takes the record or the reference out after it has looked which it is.
 */
final class SlotWord(val raw: Long) extends AnyVal {
  def isEmpty: Boolean = raw == 0L

  def isRecord: Boolean = raw > 0L

  def isCold: Boolean = raw < 0L

  def record: Record = new Record(raw)

  def ref: ColdRef = new ColdRef(raw)
}

object SlotWord {
  def Empty: SlotWord = new SlotWord(0L)

  def of(ref: ColdRef): SlotWord = new SlotWord(ref.raw)
}
