package tailrace.layout

import tailrace.cold.ColdRef
import tailrace.memory.Arena

/**
 * The content of a slot of the hash table: a record, a reference to one that was spilled, or nothing.
 * Addresses have a top bit of 0, references one of 1 (see [[tailrace.cold.ColdRef]]), so that one
 * comparison tells them apart.
 *
 * An address has 48 bits. The table keeps the record's stamp (see [[UseClock]]) in the 15 between them
 * and the top bit. No word outside the table has one: `unstamped` takes it off.
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

  // ---- as the table has them

  final val StampBits = 15
  private final val AddressMask = (1L << Arena.AddressBits) - 1

  def unstamped(stored: Long): SlotWord =
    new SlotWord(if (stored < 0L) stored else stored & AddressMask)

  /** 0: of a reference, too. */
  def stampOf(stored: Long): Int = if (stored < 0L) 0 else (stored >>> Arena.AddressBits).toInt

  /** A reference has no stamp. */
  def stamped(word: SlotWord, stamp: Int): Long =
    if (word.isRecord) word.raw | stamp.toLong << Arena.AddressBits else word.raw
}
